#include "cli/host_argument.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::cli {
namespace {

TEST(HostArgument, IsAHostWithOrWithoutAPortOrAUrl) {
  EXPECT_EQ(ParseHost("server.example", {})->host, "server.example");
  EXPECT_TRUE(ParseHost("server.example", {})->finds_port);
  EXPECT_EQ(ParseHost("server.example:3049", {})->port, 3049);
  EXPECT_EQ(ParseHost("2001:db8::1", {})->host, "2001:db8::1");
  EXPECT_EQ(ParseHost("[2001:db8::1]:3049", {})->port, 3049);
  EXPECT_EQ(ParseHost("nfs://server.example/data?proto=rdma", {})->protocol, client::Protocol::kRdma);
}

TEST(HostArgument, RefusesOtherTexts) {
  for (const std::string text : {"", "server/export", "http://server", "a?vers=3"}) {
    const auto url = ParseHost(text, {});
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().message, text + ": neither a host nor an nfs:// URL");
  }
  EXPECT_FALSE(ParseHost("server:port", {}));
}

}  // namespace
}  // namespace penstock::cli
