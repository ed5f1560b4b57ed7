# add_layer(NAME [DEPENDS lib...] [SYSTEM lib...] [EXTRA file...] [EXCLUDE_REGEX re])
#
# One folder of src/ = one static library = one row of tools/layers.txt. Collects src/NAME/**/*.cpp;
# files named *_test.cpp become the test program NAME_test, which links this library and the ones
# below it only, so that an upward call fails to link. *_bench.cpp files are not built here.
# Test labels: "unit", plus what EMBERBANK_TEST_LABELS_<NAME> says.
if(EMBERBANK_BUILD_TESTS)
  add_custom_target(unit_tests)  # every test program beside its sources
endif()
set(EMBERBANK_WARNINGS -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
set(EMBERBANK_TEST_WARNINGS -Wall -Wextra)
if(NOT EMBERBANK_SANITIZE)  # instrumented code makes g++ 12 warn falsely of uninitialised values
  list(APPEND EMBERBANK_WARNINGS -Werror)
  list(APPEND EMBERBANK_TEST_WARNINGS -Werror)
endif()

function(add_layer NAME)
  cmake_parse_arguments(L "" "EXCLUDE_REGEX" "DEPENDS;SYSTEM;EXTRA" ${ARGN})
  file(GLOB_RECURSE all CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${NAME}/*.cpp")
  set(sources ${all})
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cpp$")
  if(L_EXCLUDE_REGEX)
    list(FILTER sources EXCLUDE REGEX "${L_EXCLUDE_REGEX}")
  endif()
  set(tests ${all})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  if(sources OR L_EXTRA)
    add_library(${NAME} STATIC ${sources} ${L_EXTRA})
    set(scope PUBLIC)
    target_compile_options(${NAME} PRIVATE ${EMBERBANK_WARNINGS})
  else()
    add_library(${NAME} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${NAME} ${scope} "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${NAME} ${scope} ${L_DEPENDS} ${L_SYSTEM})
  if(EMBERBANK_BUILD_TESTS AND tests)
    add_executable(${NAME}_test ${tests})
    target_compile_options(${NAME}_test PRIVATE ${EMBERBANK_TEST_WARNINGS})
    target_link_libraries(${NAME}_test PRIVATE ${NAME} GTest::gtest_main GTest::gmock ${RAPIDCHECK_LIBRARY})
    target_compile_definitions(${NAME}_test PRIVATE
      EMBERBANK_SOURCE_DIR="${PROJECT_SOURCE_DIR}" EMBERBANK_BINARY_DIR="${PROJECT_BINARY_DIR}")
    set(labels unit ${EMBERBANK_TEST_LABELS_${NAME}})
    add_dependencies(unit_tests ${NAME}_test)
    add_test(NAME ${NAME} COMMAND ${NAME}_test)
    set_tests_properties(${NAME} PROPERTIES LABELS "${labels}" TIMEOUT 900)
  endif()
endfunction()
