#include "cli/listen_options.h"

#include <fmt/ostream.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <asio/ip/tcp.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/configuration.h"
#include "cli/serve_options.h"
#include "cli/test_parser.h"

template <>
struct fmt::formatter<penstock::SocketAddress> : fmt::ostream_formatter {};

namespace penstock::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Texts = std::vector<std::string>;

Texts ToTexts(const std::vector<SocketAddress>& addresses) {
  Texts texts;
  for (const SocketAddress& each : addresses) texts.push_back(fmt::format("{}", each));
  return texts;
}

// The addresses of a command line.
server::Addresses AddressesFor(Texts arguments) {
  const auto parsed = ParseWith(&AddServeOptions, std::move(arguments));
  EXPECT_EQ(parsed.code, 0) << parsed.message;
  const auto addresses = AddressesOf(parsed.options.listen);
  EXPECT_TRUE(addresses) << addresses.error().message;
  return addresses ? *addresses : server::Addresses();
}

std::string ErrorFor(Texts arguments) {
  const auto parsed = ParseWith(&AddServeOptions, std::move(arguments));
  EXPECT_EQ(parsed.code, 0) << parsed.message;
  const auto server = ServerOptionsOf(parsed.options);
  return server ? "no error" : server.error().message;
}

TEST(ListenOptions, AnAddressOfAllTransportsGetsThePortOfEach) {
  const auto at = AddressesFor({"--listen=192.0.2.1", "--listen=::1", "--rdma-port=7", "/srv"});
  EXPECT_THAT(ToTexts(at.tcp), ElementsAre("192.0.2.1:2049", "[::1]:2049"));
  EXPECT_THAT(ToTexts(at.rdma), ElementsAre("192.0.2.1:7", "[::1]:7"));
  EXPECT_THAT(ToTexts(at.mount), ElementsAre("192.0.2.1:20048", "[::1]:20048"));
}

TEST(ListenOptions, TheWordBehindAnAddressIsTheDirectory) {
  for (const std::string flag : {"--listen", "--listen-tcp", "--listen-rdma", "--listen-mount"}) {
    const auto parsed = ParseWith(&AddServeOptions, {flag, "192.0.2.1", "/srv"});
    EXPECT_EQ(parsed.code, 0) << parsed.message;
    EXPECT_EQ(parsed.options.directory, "/srv") << flag;
  }
}

TEST(ListenOptions, TheListOfATransportReplacesTheCommonOne) {
  const auto at = AddressesFor({"--listen=192.0.2.1", "--listen-tcp=192.0.2.2:1", "--listen-tcp=[2001:db8::1]:2",
                                "--listen-tcp=2001:db8::2", "--listen-tcp=[2001:db8::3]", "--listen-rdma=192.0.2.3",
                                "--tcp-port=9", "/srv"});
  EXPECT_THAT(ToTexts(at.tcp), ElementsAre("192.0.2.2:1", "[2001:db8::1]:2", "[2001:db8::2]:9", "[2001:db8::3]:9"));
  EXPECT_THAT(ToTexts(at.rdma), ElementsAre("192.0.2.3:20049"));
  EXPECT_THAT(ToTexts(at.mount), ElementsAre("192.0.2.1:20048"));
}

// This host may have no IPv6.
TEST(ListenOptions, AStarMeansAllAddresses) {
  const auto at = AddressesFor({"--listen=*", "--listen-tcp=*:1", "/srv"});
  EXPECT_EQ(ToTexts(at.tcp).front(), "0.0.0.0:1");
  EXPECT_EQ(ToTexts(at.mount).front(), "0.0.0.0:20048");
  if (at.tcp.size() == 1) GTEST_SKIP() << "this host has no IPv6";
  EXPECT_THAT(ToTexts(at.tcp), ElementsAre("0.0.0.0:1", "[::]:1"));
  EXPECT_THAT(ToTexts(at.rdma), ElementsAre("0.0.0.0:20049", "[::]:20049"));
}

TEST(ListenOptions, NoneSwitchesATransportOff) {
  EXPECT_THAT(AddressesFor({"--listen-tcp=none", "/srv"}).tcp, IsEmpty());
  const auto at = AddressesFor({"--listen-rdma=none", "--listen-mount=none", "/srv"});
  EXPECT_THAT(ToTexts(at.tcp), ElementsAre("127.0.0.1:2049"));
  EXPECT_THAT(at.rdma, IsEmpty());
  EXPECT_THAT(at.mount, IsEmpty());
}

TEST(ListenOptions, SomeTransportOfNfsMustRemain) {
  EXPECT_THAT(ErrorFor({"--listen-tcp=none", "--listen-rdma=none", "/srv"}), HasSubstr("offers NFS at no address"));
  EXPECT_EQ(ErrorFor({"--listen-tcp=none", "--inter-server-copy", "/srv"}),
            "--inter-server-copy needs NFS over TCP, which --listen-tcp none switches off");
  EXPECT_EQ(ErrorFor({"--listen-rdma=192.0.2.1", "--listen-rdma=none", "/srv"}),
            "--listen-rdma none and --listen-rdma 192.0.2.1 contradict each other");
}

TEST(ListenOptions, TheErrorOfAnAddressThatStandsTwiceNamesBoth) {
  EXPECT_EQ(ErrorFor({"--listen=192.0.2.1", "--listen=192.0.2.1", "/srv"}),
            "--listen 192.0.2.1 and --listen 192.0.2.1 are the same address, 192.0.2.1 port 2049");
  EXPECT_EQ(ErrorFor({"--listen-rdma=::1", "--listen-rdma=[0:0::1]:20049", "/srv"}),
            "--listen-rdma ::1 and --listen-rdma [0:0::1]:20049 are the same address, ::1 port 20049");
  EXPECT_EQ(ErrorFor({"--listen=192.0.2.1", "--listen=0.0.0.0", "/srv"}),
            "--listen 0.0.0.0 and --listen 192.0.2.1: 0.0.0.0 port 2049 covers 192.0.2.1 port 2049");
  EXPECT_THAT(ErrorFor({"--listen=*", "--listen=0.0.0.0", "/srv"}), HasSubstr("--listen * and --listen 0.0.0.0"));
  EXPECT_EQ(ErrorFor({"--mount-port=2049", "/srv"}),
            "NFS over TCP (--listen 127.0.0.1) and MOUNT (--listen 127.0.0.1) have the same port 2049");
}

TEST(ListenOptions, AddressesThatOnlyLookAlikeStandSideBySide) {
  AddressesFor({"--listen=0.0.0.0", "--listen=::", "/srv"});
  AddressesFor({"--listen=::", "--listen=127.0.0.1", "/srv"});
  AddressesFor({"--listen-tcp=192.0.2.1:1", "--listen-tcp=192.0.2.1:2", "--listen-tcp=0.0.0.0:3", "/srv"});
  // The system chooses two ports.
  AddressesFor({"--tcp-port=0", "--mount-port=0", "/srv"});
  // An RDMA adapter has ports of its own.
  AddressesFor({"--rdma-port=2049", "/srv"});
}

TEST(ListenOptions, RefusesMalformedAddresses) {
  for (const std::string text : {"", "localhost", "192.0.2.1:", "192.0.2.1:x", "192.0.2.1:65536", "[192.0.2.1]:1",
                                 "[::1", "[::1]1", "[::1]:", "*:", "[*]:1", "192.0.2.1:1:2", "NONE"}) {
    for (const std::string flag : {"--listen-tcp", "--listen-rdma", "--listen-mount"}) {
      EXPECT_FALSE(CheckListenEndpoint(flag, text)) << text;
      ServeOptions options;
      (flag == "--listen-tcp"    ? options.listen.tcp
       : flag == "--listen-rdma" ? options.listen.rdma
                                 : options.listen.mount) = {text};
      const auto addresses = AddressesOf(options.listen);
      ASSERT_FALSE(addresses) << text;
      EXPECT_THAT(addresses.error().message, HasSubstr(flag + " " + text + ": not an ADDRESS")) << text;
    }
  }
  EXPECT_FALSE(CheckListenAddress("none"));
}

TEST(ListenOptions, TheFileHasOneAddressOrAList) {
  const auto made = [](const std::string& text) { return Configure({}, {}, ConfigFile{.name = "f", .text = text}); };
  const auto one = made("[listen]\nlisten = '::1'\n");
  ASSERT_TRUE(one);
  EXPECT_THAT(one->options.listen.all, ElementsAre("::1"));
  const auto list = made("[listen]\nlisten = ['::1', '192.0.2.1']\nlisten-rdma = 'none'\n");
  ASSERT_TRUE(list);
  EXPECT_THAT(list->options.listen.all, ElementsAre("::1", "192.0.2.1"));
  EXPECT_THAT(list->options.listen.rdma, ElementsAre("none"));
  const auto wrong = made("[listen]\nlisten = [\n'::1',\n'x']\nlisten-tcp = 'y'\n");
  ASSERT_FALSE(wrong);
  ASSERT_EQ(wrong.error().size(), 2u);
  EXPECT_EQ(ToString(wrong.error()[0]), "f:4: listen.listen: x: not an IP address");
  EXPECT_THAT(ToString(wrong.error()[1]), HasSubstr("f:5: listen.listen-tcp = y: not an ADDRESS"));
  const auto twice = made("[listen]\nlisten = ['::1',\n'::1']\n");
  ASSERT_FALSE(twice);
  EXPECT_THAT(ToString(twice.error().front()), HasSubstr("f:2: --listen ::1 and --listen ::1 are the same address"));
}

}  // namespace
}  // namespace penstock::cli
