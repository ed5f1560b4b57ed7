# Compile flags of the kernels, by file name: one translation unit an instruction set, chosen at run time.
file(GLOB_RECURSE kernels CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/ops/*.cpp")
foreach(file IN LISTS kernels)
  if(file MATCHES "/avx2[a-z_]*\\.cpp$" AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set_source_files_properties("${file}" PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c;-ffp-contract=off")
  elseif(file MATCHES "/avx512[a-z_]*\\.cpp$" AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set_source_files_properties("${file}" PROPERTIES COMPILE_OPTIONS
      "-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mavx512vnni;-mfma;-mf16c;-ffp-contract=off")
  endif()
endforeach()
