# `cmake --install build --prefix DIR`: DIR/bin/emberbank, and the MLX library in DIR/lib as it lies in its wheel, since
# it finds its own libraries (BLAS, Metal kernels) by their place beside it. DIR may be moved.
# In a build tree the binary is at the top: build/emberbank.
set_target_properties(emberbank PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
if(APPLE)
  set_target_properties(emberbank PROPERTIES INSTALL_RPATH "@loader_path/../lib/mlx/lib")
else()
  set_target_properties(emberbank PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/mlx/lib")
endif()
install(TARGETS emberbank RUNTIME DESTINATION bin)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/THIRD_PARTY.md" DESTINATION share/doc/emberbank)
install(DIRECTORY "${MLX_ROOT}/lib/" DESTINATION lib/mlx/lib)
if(EXISTS "${MLX_ROOT}/../mlx_cpu.libs")
  install(DIRECTORY "${MLX_ROOT}/../mlx_cpu.libs" DESTINATION lib)
endif()
