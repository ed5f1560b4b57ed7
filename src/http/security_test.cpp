#include "http/security.h"

#include <gtest/gtest.h>

#include "http/api_handler.h"

namespace http {
namespace {

api::ApiRequest With(const std::string& header, const std::string& value) {
  api::ApiRequest request;
  request.headers[header] = value;
  return request;
}

TEST(KeyRing, AKeyIsTakenFromEitherHeader) {
  const KeyRing keys({"one", "two"});
  std::string tenant;
  EXPECT_TRUE(keys.Admits(With("authorization", "Bearer one"), tenant));
  const std::string first = tenant;
  EXPECT_TRUE(keys.Admits(With("x-api-key", "one"), tenant));
  EXPECT_EQ(tenant, first);
  EXPECT_TRUE(keys.Admits(With("authorization", "bearer  two"), tenant));
  EXPECT_NE(tenant, first);
  EXPECT_EQ(tenant.find("two"), std::string::npos);
}

TEST(KeyRing, EverythingElseIsRefused) {
  const KeyRing keys({"one", ""});
  std::string tenant;
  for (const char* value :
       {"", "Bearer", "Bearer ", "Bearer on", "Bearer onee", "Basic one", "one"}) {
    EXPECT_FALSE(keys.Admits(With("authorization", value), tenant)) << value;
  }
  EXPECT_FALSE(keys.Admits(With("x-api-key", ""), tenant));
  EXPECT_FALSE(keys.Admits({}, tenant));
}

TEST(LocalHosts, OnlyNamesOfThisMachineAreLocal) {
  for (const char* host : {"localhost", "localhost:8000", "LOCALHOST:1", "127.0.0.1",
                           "127.0.0.1:80", "127.1.2.3:80", "[::1]", "[::1]:8000"}) {
    EXPECT_TRUE(IsLocalHostHeader(host)) << host;
  }
  for (const char* host :
       {"", "evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example",
        "192.168.0.1", "[::2]", "[", "[]", "0.0.0.0", "localhost, evil.example"}) {
    EXPECT_FALSE(IsLocalHostHeader(host)) << host;
  }
  EXPECT_TRUE(IsLoopback("127.0.0.1"));
  EXPECT_TRUE(IsLoopback("::1"));
  EXPECT_FALSE(IsLoopback("0.0.0.0"));
}

TEST(Origin, PagesFromElsewhereAreForeignAndLocalOnesAndProgramsAreNot) {
  for (const char* foreign : {"https://evil.example", "http://evil.example:8000", "null", "",
                              "HTTP://localhost.evil.example", "http://192.168.1.2"}) {
    EXPECT_TRUE(IsForeignOrigin(foreign)) << foreign;
  }
  for (const char* local :
       {"http://localhost:3000", "https://127.0.0.1", "http://[::1]:8000", "vscode-webview://abc",
        "chrome-extension://abc", "tauri://localhost"}) {
    EXPECT_FALSE(IsForeignOrigin(local)) << local;
  }
}

}  // namespace
}  // namespace http
