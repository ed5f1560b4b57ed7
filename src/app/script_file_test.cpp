#include "app/script_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

namespace app {
namespace {

std::string Write(const std::string& content) {
  const std::string path = testing::TempDir() + "/script.json";
  std::ofstream(path) << content;
  return path;
}

TEST(Script, AFileIsReadWhole) {
  const Result<ScriptFile> file =
      ReadScript(Write(R"({"chunks_hex": ["6869", "e2", "82ac"], "finish": "engine_error",
               "prefill_delay_s": 0.5, "prompt_tail": "<think>"})"));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->fails_at_end);
  EXPECT_EQ(file->prefill_delay_s, 0.5);
  EXPECT_EQ(file->prompt_tail, "<think>");
  EXPECT_EQ(file->chunks, (std::vector<std::string>{"hi", "\xE2", "\x82\xAC"}));
}

TEST(Script, ABadFileIsNamed) {
  for (const char* content :
       {"", "[]", "{}", R"({"chunks": "x"})", R"({"chunks": [1]})", R"({"chunks_hex": ["6"]})",
        R"({"chunks": [], "finish": "later"})", R"({"chunks": [], "prefill_delay_s": -1})"}) {
    const std::string path = Write(content);
    const Result<ScriptFile> file = ReadScript(path);
    ASSERT_FALSE(file) << content;
    EXPECT_NE(file.error().message.find(path), std::string::npos);
  }
  EXPECT_FALSE(ReadScript("/nowhere.json"));
}

}  // namespace
}  // namespace app
