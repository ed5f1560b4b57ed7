# -DEMBERBANK_SANITIZE=address,undefined  or  thread
if(EMBERBANK_SANITIZE)
  add_compile_options(-fsanitize=${EMBERBANK_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${EMBERBANK_SANITIZE})
endif()
# -DEMBERBANK_FUZZ=ON: coverage for libFuzzer in all our code; fuzz/CMakeLists.txt adds its main().
if(EMBERBANK_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
