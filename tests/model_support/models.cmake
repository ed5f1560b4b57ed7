# The tests of whole models and the fixture that makes their models.

# The first python3 that has numpy: a python of pyenv or conda in front of the system's often has not.
set(EMBERBANK_NUMPY_PYTHON "" CACHE FILEPATH "python3 with numpy, for tools/model_factory")
if(NOT EMBERBANK_NUMPY_PYTHON)
  foreach(candidate "${PROJECT_SOURCE_DIR}/.deps/test-venv/bin/python" python3 /usr/bin/python3 /opt/homebrew/bin/python3)
    execute_process(COMMAND "${candidate}" -c "import numpy" RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if("${failed}" STREQUAL "0")
      set_property(CACHE EMBERBANK_NUMPY_PYTHON PROPERTY VALUE "${candidate}")
      break()
    endif()
  endforeach()
endif()
if(NOT EMBERBANK_NUMPY_PYTHON)
  message(WARNING "no python3 with numpy found: the tests of whole models will fail (scripts/setup installs it)")
  set(EMBERBANK_NUMPY_PYTHON python3)
endif()

add_test(NAME make_models COMMAND "${EMBERBANK_NUMPY_PYTHON}" "${PROJECT_SOURCE_DIR}/tests/model_golden/make_models.py"
         "${EMBERBANK_TEST_MODELS}")
set_tests_properties(make_models PROPERTIES FIXTURES_SETUP test_models LABELS "golden;conformance" TIMEOUT 300)

add_test(NAME model_factory
         COMMAND "${EMBERBANK_NUMPY_PYTHON}" "${PROJECT_SOURCE_DIR}/tools/model_factory/model_factory_test.py")
set_tests_properties(model_factory PROPERTIES LABELS unit)

add_library(model_support STATIC "${CMAKE_CURRENT_SOURCE_DIR}/model_support/test_model.cpp")
target_include_directories(model_support PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}")
target_link_libraries(model_support PUBLIC engine test_paths GTest::gtest)
target_compile_options(model_support PRIVATE -Wall -Wextra -Werror)

# add_model_test(NAME LABEL file...): a program over the made models.
function(add_model_test NAME LABEL)
  add_executable(${NAME}_test ${ARGN})
  target_compile_options(${NAME}_test PRIVATE -Wall -Wextra -Werror)
  target_link_libraries(${NAME}_test PRIVATE model_support GTest::gtest_main)
  add_test(NAME ${NAME} COMMAND ${NAME}_test)
  set_tests_properties(${NAME} PROPERTIES FIXTURES_REQUIRED test_models LABELS "${LABEL}" TIMEOUT 900)
endfunction()
add_model_test(model_golden golden "${CMAKE_CURRENT_SOURCE_DIR}/model_golden/model_golden_test.cpp")
add_model_test(model_conformance conformance "${CMAKE_CURRENT_SOURCE_DIR}/conformance/model_conformance_test.cpp")
add_model_test(bank_conformance conformance "${CMAKE_CURRENT_SOURCE_DIR}/conformance/bank_conformance_test.cpp")
target_link_libraries(bank_conformance_test PRIVATE app)
