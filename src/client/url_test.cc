#include "client/url.h"

#include <gtest/gtest.h>

namespace penstock::client {
namespace {

TEST(Url, NamesAHostAndAPath) {
  const auto url = Url::Parse("nfs://server/a/b");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->host, "server");
  EXPECT_EQ(url->path, "/a/b");
  EXPECT_EQ(url->port, 2049);
  EXPECT_EQ(url->protocol, Protocol::kTcp);
  EXPECT_EQ(url->mount_port, 20048);
  EXPECT_FALSE(url->uid);
}

TEST(Url, WithoutAPathMeansTheRoot) { EXPECT_EQ(Url::Parse("nfs://server")->path, "/"); }

TEST(Url, OverRdmaHasItsOwnPort) {
  EXPECT_EQ(Url::Parse("nfs://server/?proto=rdma")->port, 20049);
  EXPECT_EQ(Url::Parse("nfs://server:7/?proto=rdma")->port, 7);
}

TEST(Url, TakesOptions) {
  const auto url = Url::Parse("nfs://h/x?vers=3&proto=rdma&nfsport=1&mountport=2&uid=3&gid=4&crc=off&timeout=5");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->protocol, Protocol::kRdma);
  EXPECT_EQ(url->version, Version::k3);
  EXPECT_EQ(url->port, 1);
  EXPECT_EQ(url->mount_port, 2);
  EXPECT_EQ(url->uid, 3u);
  EXPECT_EQ(url->gid, 4u);
  EXPECT_FALSE(url->crc);
  EXPECT_EQ(url->timeout, 5u);
  EXPECT_TRUE(Url::Parse("nfs://h/?crc=on")->crc);
  EXPECT_TRUE(Url::Parse("nfs://h/")->reserved_port);
  EXPECT_TRUE(Url::Parse("nfs://h/?resvport")->reserved_port);
  EXPECT_FALSE(Url::Parse("nfs://h/?noresvport&proto=rdma")->reserved_port);
  EXPECT_FALSE(Url::Parse("nfs://h/?resvport=1")) << "has no value, as in nfs(5)";
}

TEST(Url, NamesAVersionOrLeavesItOpen) {
  EXPECT_EQ(Url::Parse("nfs://h/")->version, std::nullopt);
  EXPECT_EQ(Url::Parse("nfs://h/?vers=4")->version, Version::k41);
  EXPECT_EQ(Url::Parse("nfs://h/?vers=4.0")->version, Version::k40);
  EXPECT_EQ(Url::Parse("nfs://h/?vers=4.1")->version, Version::k41);
  EXPECT_EQ(Url::Parse("nfs://h/?vers=4.2")->version, Version::k42);
}

TEST(Url, TakesAnIpv6Address) {
  EXPECT_EQ(Url::Parse("nfs://[::1]:99/x")->host, "::1");
  EXPECT_EQ(Url::Parse("nfs://[::1]:99/x")->port, 99);
  EXPECT_EQ(Url::Parse("nfs://[fe80::2]")->port, 2049);
}

TEST(Url, DecodesEscapesInThePath) { EXPECT_EQ(Url::Parse("nfs://h/a%20b%3f")->path, "/a b?"); }

TEST(Url, SaysWhatIsWrong) {
  for (const char* text :
       {"http://h/", "nfs://", "nfs:///x", "nfs://h:0/", "nfs://h:70000/", "nfs://h:/", "nfs://[::1/", "nfs://[::1]x/",
        "nfs://h/%", "nfs://h/%2", "nfs://h/%zz", "nfs://h/%00", "nfs://h/?proto=udp", "nfs://h/?vers=9",
        "nfs://h/?mountport=x", "nfs://h/?uid=", "nfs://h/?crc=maybe", "nfs://h/?timeout=0", "nfs://h/?colour=blue"}) {
    const auto url = Url::Parse(text);
    ASSERT_FALSE(url) << text;
    EXPECT_NE(url.error().message.find(text), std::string::npos) << url.error().message;
  }
}

}  // namespace
}  // namespace penstock::client
