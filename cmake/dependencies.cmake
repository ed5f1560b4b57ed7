# Every library that is not ours, in one place. scripts/setup installs them.

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE}")
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(PkgConfig REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(HIREDIS REQUIRED IMPORTED_TARGET hiredis)
find_package(Boost 1.81 REQUIRED)  # headers only: Asio and Beast
find_package(CLI11 REQUIRED)
find_package(prometheus-cpp REQUIRED CONFIG COMPONENTS core)
find_package(tl-expected REQUIRED)
if(APPLE)
  add_library(libedit INTERFACE IMPORTED)  # part of the system, without a pkg-config file
  target_link_libraries(libedit INTERFACE edit)
else()
  pkg_check_modules(LIBEDIT REQUIRED IMPORTED_TARGET libedit)
  add_library(libedit ALIAS PkgConfig::LIBEDIT)
endif()

# The MLX C++ library out of its Python wheel, unpacked by scripts/setup.
set(MLX_ROOT "${PROJECT_SOURCE_DIR}/.deps/mlx" CACHE PATH "Folder of the unpacked MLX wheel")
find_package(MLX CONFIG REQUIRED PATHS "${MLX_ROOT}" NO_DEFAULT_PATH PATH_SUFFIXES share/cmake/MLX)
set_target_properties(mlx PROPERTIES
  INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "$<TARGET_PROPERTY:mlx,INTERFACE_INCLUDE_DIRECTORIES>")

if(EMBERBANK_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_library(RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
endif()
