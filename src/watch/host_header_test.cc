#include "watch/host_header.h"

#include <gtest/gtest.h>

namespace penstock::watch {
namespace {

TEST(NamesThisHost, TakesAddressesLocalhostAndTheOwnName) {
  for (const char* host : {"127.0.0.1", "127.0.0.1:9469", "10.1.2.3:80", "[::1]", "[::1]:9469", "localhost",
                           "LocalHost:9469", "localhost.", "server1", "SERVER1:9469"}) {
    EXPECT_TRUE(NamesThisHost(host, "server1")) << host;
  }
}

TEST(NamesThisHost, TakesNoOtherName) {
  for (const char* host : {"", ":", ":9469", "evil.example", "evil.example:9469", "localhost.evil.example",
                           "127.0.0.1.evil.example", "server1.evil.example", "server", "[::1", "[evil]", "[::1]x",
                           "::1", "localhost:x", "127.0.0.1@evil.example", "127.0.0.1:80@evil"}) {
    EXPECT_FALSE(NamesThisHost(host, "server1")) << host;
  }
  EXPECT_FALSE(NamesThisHost("", ""));
}

}  // namespace
}  // namespace penstock::watch
