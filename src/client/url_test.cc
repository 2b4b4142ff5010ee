#include "client/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace penstock::client {
namespace {

Url Parsed(std::string_view text) {
  auto url = Url::Parse(text);
  EXPECT_TRUE(url) << url.error().message;
  return url ? *std::move(url) : Url();
}

std::vector<UrlOption> Option(std::string name, std::string value, std::string source) {
  return {{.name = std::move(name), .value = std::move(value), .source = std::move(source)}};
}

std::string Complaint(std::string_view text) {
  const auto url = Url::Parse(text);
  EXPECT_FALSE(url) << text;
  return url ? "" : url.error().message;
}

TEST(Url, ParsesHostAndPath) {
  const auto url = Url::Parse("nfs://server/a/b");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->host, "server");
  EXPECT_EQ(url->path, "/a/b");
  EXPECT_EQ(url->port, 2049);
  EXPECT_EQ(url->protocol, Protocol::kTcp);
  EXPECT_TRUE(url->finds_port);
  EXPECT_FALSE(url->mount_port);
  EXPECT_FALSE(url->uid);
  EXPECT_FALSE(url->gid);
  EXPECT_FALSE(url->version);
  EXPECT_TRUE(url->crc);
  EXPECT_EQ(url->recovery, RecoveryOptions());
  EXPECT_FALSE(url->inline_data);
  EXPECT_EQ(url->session, BoundSessionOptions());
}

TEST(Url, UsesTheRootIfThePathIsMissing) {
  EXPECT_EQ(Url::Parse("nfs://server")->path, "/");
  EXPECT_EQ(Parsed("nfs://server?vers=3").path, "/");
  EXPECT_EQ(Parsed("nfs://server:1?vers=3").path, "/");
  EXPECT_EQ(Parsed("nfs://server/").path, "/");
}

TEST(Url, UsesAnotherDefaultPortForRdma) {
  EXPECT_EQ(Url::Parse("nfs://server/?proto=rdma")->port, 20049);
  EXPECT_EQ(Url::Parse("nfs://server:7/?proto=rdma")->port, 7);
  EXPECT_EQ(Parsed("nfs://server/?proto=tcp").port, 2049);
  EXPECT_EQ(Parsed("nfs://server/?proto=rdma&proto=tcp").port, 2049) << "the last value counts";
}

TEST(Url, ParsesOptions) {
  const auto url =
      Url::Parse("nfs://h/x?vers=3&proto=rdma&nfsport=1&mountport=2&uid=3&gid=4&crc=off&timeout=5&inline=6");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->protocol, Protocol::kRdma);
  EXPECT_EQ(url->version, Version::k3);
  EXPECT_EQ(url->port, 1);
  EXPECT_EQ(url->mount_port, 2);
  EXPECT_EQ(url->uid, 3u);
  EXPECT_EQ(url->gid, 4u);
  EXPECT_FALSE(url->crc);
  EXPECT_EQ(url->recovery.timeout, 5u);
  EXPECT_EQ(url->inline_data, 6u);
  EXPECT_TRUE(Url::Parse("nfs://h/?crc=on")->crc);
  EXPECT_TRUE(Url::Parse("nfs://h/")->reserved_port);
  EXPECT_TRUE(Url::Parse("nfs://h/?resvport")->reserved_port);
  EXPECT_FALSE(Url::Parse("nfs://h/?noresvport&proto=rdma")->reserved_port);
  EXPECT_FALSE(Url::Parse("nfs://h/?resvport=1")) << "the option has no value, as in nfs(5)";
}

TEST(Url, AcceptsTheLargestNumbers) {
  EXPECT_EQ(Parsed("nfs://h:65535/").port, 65535);
  EXPECT_EQ(Parsed("nfs://h/?port=65535").port, 65535);
  EXPECT_EQ(Parsed("nfs://h/?mountport=65535").mount_port, 65535);
  EXPECT_EQ(Parsed("nfs://h/?uid=4294967295").uid, 0xffff'ffffu);
  EXPECT_EQ(Parsed("nfs://h/?gid=0").gid, 0u);
  EXPECT_EQ(Parsed("nfs://h/?timeout=4294967295").recovery.timeout, 0xffff'ffffu);
  EXPECT_EQ(Parsed("nfs://h/?inline=114688").inline_data, 114688u);
}

TEST(Url, AnOptionOverridesThePortOfTheHost) {
  EXPECT_EQ(Parsed("nfs://h:1/?port=2").port, 2);
  EXPECT_EQ(Parsed("nfs://h:1/?port=2&nfsport=3").port, 3);
}

TEST(Url, IgnoresEmptyOptions) {
  EXPECT_EQ(Parsed("nfs://h/x?").path, "/x");
  EXPECT_EQ(Parsed("nfs://h/x?&&uid=1&").uid, 1u);
}

TEST(Url, ParsesTheVersion) {
  EXPECT_EQ(Url::Parse("nfs://h/")->version, std::nullopt);
  EXPECT_EQ(Url::Parse("nfs://h/?vers=4")->version, Version::k41);
  EXPECT_EQ(Url::Parse("nfs://h/?vers=4.0")->version, Version::k40);
  EXPECT_EQ(Url::Parse("nfs://h/?vers=4.1")->version, Version::k41);
  EXPECT_EQ(Url::Parse("nfs://h/?vers=4.2")->version, Version::k42);
  EXPECT_EQ(Parsed("nfs://h/?version=3").version, Version::k3);
}

TEST(Url, ParsesAnIpv6Address) {
  EXPECT_EQ(Url::Parse("nfs://[::1]:99/x")->host, "::1");
  EXPECT_EQ(Url::Parse("nfs://[::1]:99/x")->port, 99);
  EXPECT_EQ(Url::Parse("nfs://[fe80::2]")->port, 2049);
  EXPECT_EQ(Parsed("nfs://[fe80::2%25eth0]/").host, "fe80::2%25eth0") << "the host is not decoded";
}

TEST(Url, DecodesEscapesInThePath) {
  EXPECT_EQ(Url::Parse("nfs://h/a%20b%3f")->path, "/a b?");
  EXPECT_EQ(Parsed("nfs://h/%2F%2f%25").path, "///%");
  EXPECT_EQ(Parsed("nfs://h/%C3%A9").path, "/\xc3\xa9");
  EXPECT_EQ(Parsed("nfs://h/a b+c").path, "/a b+c") << "a plus sign is no space";
}

TEST(Url, TellsAUrlFromALocalPath) {
  EXPECT_TRUE(Url::LooksLikeOne("nfs://"));
  EXPECT_FALSE(Url::LooksLikeOne("nfs:/a"));
  EXPECT_FALSE(Url::LooksLikeOne("/nfs://a"));
  EXPECT_FALSE(Url::LooksLikeOne(""));
}

TEST(Url, NamesTheUrlInEveryError) {
  for (const char* text :
       {"http://h/", "nfs://", "nfs:///x", "nfs://h:0/", "nfs://h:70000/", "nfs://h:/", "nfs://[::1/", "nfs://[::1]x/",
        "nfs://h/%", "nfs://h/%2", "nfs://h/%zz", "nfs://h/%00", "nfs://h/?proto=udp", "nfs://h/?vers=9",
        "nfs://h/?mountport=x", "nfs://h/?uid=", "nfs://h/?crc=maybe", "nfs://h/?timeout=0", "nfs://h/?colour=blue"}) {
    const auto url = Url::Parse(text);
    ASSERT_FALSE(url) << text;
    EXPECT_NE(url.error().message.find(text), std::string::npos) << url.error().message;
  }
}

TEST(Url, RejectsATextThatIsNoUrl) {
  EXPECT_EQ(Complaint("/a/b"), "/a/b: not an nfs:// URL");
  EXPECT_EQ(Complaint(""), ": not an nfs:// URL");
  EXPECT_EQ(Complaint("NFS://h/"), "NFS://h/: not an nfs:// URL");
}

TEST(Url, RejectsAMalformedHostOrPort) {
  for (const char* text : {"nfs://", "nfs:///x", "nfs://:1/", "nfs://h:0/", "nfs://h:65536/", "nfs://h:/",
                           "nfs://h:1x/", "nfs://h:-1/", "nfs://h: 1/", "nfs://h:1:2/", "nfs://::1/", "nfs://[]/",
                           "nfs://[::1/", "nfs://[::1]x/", "nfs://[::1]:/", "nfs://[::1]:0/", "nfs://?vers=3"}) {
    EXPECT_EQ(Complaint(text), std::string(text) + ": is not of the form nfs://HOST[:PORT]/PATH");
  }
}

TEST(Url, RejectsAMalformedEscape) {
  for (const char* text : {"nfs://h/%", "nfs://h/a%2", "nfs://h/%zz", "nfs://h/%2z", "nfs://h/%+1", "nfs://h/%00"}) {
    EXPECT_EQ(Complaint(text), std::string(text) + ": has a malformed % escape in its path");
  }
}

TEST(Url, RejectsAMalformedOption) {
  const std::pair<const char*, const char*> cases[] = {
      {"proto", "proto must be tcp, tcp6, rdma, rdma6, rdma+tcp, rdma6+tcp6 or stepup"},
      {"proto=", "proto must be tcp, tcp6, rdma, rdma6, rdma+tcp, rdma6+tcp6 or stepup"},
      {"proto=udp", "proto must be tcp or rdma: Penstock has no NFS over UDP"},
      {"proto=TCP", "proto must be tcp, tcp6, rdma, rdma6, rdma+tcp, rdma6+tcp6 or stepup"},
      {"vers=", "vers must be 3, 4.0, 4.1, 4.2 or 4.1-sess01"},
      {"vers=2", "vers must be 3, 4.0, 4.1, 4.2 or 4.1-sess01"},
      {"vers=4.3", "vers must be 3, 4.0, 4.1, 4.2 or 4.1-sess01"},
      {"version=4.", "version must be 3, 4.0, 4.1, 4.2 or 4.1-sess01"},
      {"port=65536", "port must be a port number"},
      {"nfsport=x", "nfsport must be a port number"},
      {"nfsport", "nfsport must be a port number"},
      {"mountport=1 ", "mountport must be a port number"},
      {"uid=", "uid must be a number"},
      {"uid=-1", "uid must be a number"},
      {"gid=4294967296", "gid must be a number"},
      {"gid=staff", "gid must be a number"},
      {"timeout=0", "timeout must be a number of seconds"},
      {"timeout=1.5", "timeout must be a number of seconds"},
      {"timeout", "timeout must be a number of seconds"},
      {"inline=0", "inline must be a number of octets from 1 to 114688"},
      {"inline=114689", "inline must be a number of octets from 1 to 114688"},
      {"inline=on", "inline must be a number of octets from 1 to 114688"},
      {"crc=", "crc must be on or off"},
      {"crc=1", "crc must be on or off"},
      {"resvport=1", "resvport takes no value"},
      {"noresvport=", "noresvport takes no value"},
      {"colour=blue", "unknown option 'colour'"},
      {"=3", "unknown option ''"},
      {"Vers=3", "unknown option 'Vers' (is vers meant?)"},
  };
  for (const auto& [option, message] : cases) {
    const std::string text = std::string("nfs://h/?uid=1&") + option;
    EXPECT_EQ(Complaint(text), text + ": " + message);
  }
}

// ---- the sessions of 2004 ----

BoundSessionOptions SessionOf(const std::string& options) {
  return Parsed("nfs://h/?vers=4.1-sess01&proto=rdma&" + options).session;
}

TEST(Url, ParsesTheVersionAndTheModelsOfTheSessionsOf2004) {
  EXPECT_EQ(Parsed("nfs://h/?vers=4.1-sess01").version, Version::kSess01);
  EXPECT_EQ(Parsed("nfs://h/?vers=4.1-sess01").protocol, Protocol::kTcp);
  const Url stepup = Parsed("nfs://h/?proto=stepup&vers=4.1-sess01");
  EXPECT_EQ(stepup.protocol, Protocol::kStepUp);
  EXPECT_EQ(stepup.port, 2049) << "the connection begins over TCP";
  EXPECT_EQ(Parsed("nfs://h/?vers=4.1-sess01&proto=rdma").port, 20049);
}

TEST(Url, ASessionOf2004HasOneChannelAndAnOwnBackChannelByDefault) {
  const BoundSessionOptions session = SessionOf("");
  EXPECT_EQ(session.channels, 1u);
  EXPECT_EQ(session.back, BackChannelPlace::kOwn);
  EXPECT_TRUE(session.persist);
  EXPECT_EQ(session.padding, 0u);
  EXPECT_TRUE(session.chain);
}

TEST(Url, ParsesEachOptionOfTheSessionsOf2004) {
  EXPECT_EQ(SessionOf("channels=1").channels, 1u);
  EXPECT_EQ(SessionOf("channels=16").channels, 16u);
  EXPECT_EQ(SessionOf("back=own").back, BackChannelPlace::kOwn);
  EXPECT_EQ(SessionOf("back=shared").back, BackChannelPlace::kShared);
  EXPECT_EQ(SessionOf("back=off").back, BackChannelPlace::kOff);
  EXPECT_FALSE(SessionOf("persist=off").persist);
  EXPECT_TRUE(SessionOf("persist=off&persist=on").persist) << "the last value counts";
  EXPECT_FALSE(SessionOf("chain=off").chain);
  EXPECT_TRUE(SessionOf("chain=off&chain=on").chain);
  for (const uint32_t boundary : {0u, 64u, 128u, 256u, 512u, 1024u, 2048u, 4096u}) {
    EXPECT_EQ(SessionOf("pad=" + std::to_string(boundary)).padding, boundary);
  }
}

TEST(Url, AnOptionOfTheSessionsOf2004LeavesTheOthersAsTheyAre) {
  EXPECT_EQ(SessionOf("channels=2"), BoundSessionOptions{.channels = 2});
  EXPECT_EQ(SessionOf("back=off"), BoundSessionOptions{.back = BackChannelPlace::kOff});
  EXPECT_EQ(SessionOf("persist=off"), BoundSessionOptions{.persist = false});
  EXPECT_EQ(SessionOf("pad=64"), BoundSessionOptions{.padding = 64});
  EXPECT_EQ(SessionOf("chain=off"), BoundSessionOptions{.chain = false});
}

TEST(Url, RejectsAMalformedOptionOfTheSessionsOf2004) {
  const std::pair<const char*, const char*> cases[] = {
      {"channels", "channels must be a number from 1 to 16"},
      {"channels=0", "channels must be a number from 1 to 16"},
      {"channels=17", "channels must be a number from 1 to 16"},
      {"channels=-1", "channels must be a number from 1 to 16"},
      {"channels=two", "channels must be a number from 1 to 16"},
      {"back", "back must be own, shared or off"},
      {"back=on", "back must be own, shared or off"},
      {"back=Own", "back must be own, shared or off"},
      {"persist", "persist must be on or off"},
      {"persist=1", "persist must be on or off"},
      {"pad", "pad must be 0 or a power of two from 64 to 4096"},
      {"pad=on", "pad must be 0 or a power of two from 64 to 4096"},
      {"pad=32", "pad must be 0 or a power of two from 64 to 4096"},
      {"pad=65", "pad must be 0 or a power of two from 64 to 4096"},
      {"pad=8192", "pad must be 0 or a power of two from 64 to 4096"},
      {"pad=4294967296", "pad must be 0 or a power of two from 64 to 4096"},
      {"chain", "chain must be on or off"},
      {"chain=yes", "chain must be on or off"},
      {"Channels=2", "unknown option 'Channels' (is channels meant?)"},
  };
  for (const auto& [option, message] : cases) {
    const std::string text = std::string("nfs://h/?vers=4.1-sess01&proto=rdma&") + option;
    EXPECT_EQ(Complaint(text), text + ": " + message);
  }
}

TEST(Url, OtherVersionsHaveNoOptionOfTheSessionsOf2004) {
  for (const std::string option : {"channels=1", "back=own", "pad=0", "chain=on"}) {
    const std::string name = option.substr(0, option.find('='));
    for (const std::string version : {"", "vers=3&", "vers=4.0&", "vers=4.1&", "vers=4.2&"}) {
      const std::string text = "nfs://h/?" + version + option;
      EXPECT_EQ(Complaint(text), text + ": " + name + " needs vers=4.1-sess01");
    }
    Parsed("nfs://h/?" + option + "&vers=4.1-sess01");
  }
}

TEST(Url, OnlyVersionsWithSessionsCanDoWithoutPersistence) {
  for (const std::string version : {"4.1", "4.2", "4.1-sess01"}) {
    EXPECT_FALSE(Parsed("nfs://h/?persist=off&vers=" + version).session.persist);
    EXPECT_TRUE(Parsed("nfs://h/?persist=on&vers=" + version).session.persist);
  }
  for (const std::string version : {"", "vers=3&", "vers=4.0&"}) {
    const std::string text = "nfs://h/?" + version + "persist=off";
    EXPECT_EQ(Complaint(text), text + ": persist=off needs vers=4.1, 4.2 or 4.1-sess01");
    Parsed("nfs://h/?" + version + "persist=on");
  }
}

TEST(Url, SessionsOf2004HaveNoFurtherConnections) {
  const std::string text = "nfs://h/?vers=4.1-sess01&nconnect=";
  EXPECT_EQ(Complaint(text + "2"), text + "2: nconnect needs vers=3, 4.0, 4.1 or 4.2");
  EXPECT_EQ(Parsed(text + "1").nconnect, 1u);
  for (const std::string version : {"3", "4.0", "4.1", "4.2"}) {
    EXPECT_EQ(Parsed("nfs://h/?nconnect=16&vers=" + version).nconnect, 16u);
  }
}

TEST(Url, AsksForBothTransports) {
  const Url url = Parsed("nfs://h/?proto=rdma+tcp");
  EXPECT_EQ(url.protocol, Protocol::kRdma);
  EXPECT_EQ(url.family, AddressFamily::kIpv4);
  EXPECT_EQ(url.port, 20049);
  EXPECT_EQ(url.tcp_port, 2049);
  EXPECT_EQ(url.nconnect, 2u) << "one of each";
  const Url chosen = Parsed("nfs://h:1/?proto=rdma6+tcp6&tcpport=2&nconnect=5&vers=4.2");
  EXPECT_EQ(chosen.protocol, Protocol::kRdma);
  EXPECT_EQ(chosen.family, AddressFamily::kIpv6);
  EXPECT_EQ(chosen.port, 1);
  EXPECT_EQ(chosen.tcp_port, 2);
  EXPECT_EQ(chosen.nconnect, 5u);
  // The last one counts.
  EXPECT_EQ(Parsed("nfs://h/?proto=rdma+tcp&proto=rdma").tcp_port, std::nullopt);
  EXPECT_EQ(Parsed("nfs://h/?proto=rdma+tcp&proto=rdma").nconnect, 1u);
  EXPECT_EQ(Parsed("nfs://h/?proto=rdma").tcp_port, std::nullopt);
}

TEST(Url, BothTransportsNeedASessionWithSlots) {
  for (const std::string version : {"3", "4.0", "4.1-sess01"}) {
    const std::string text = "nfs://h/?proto=rdma+tcp&vers=" + version;
    EXPECT_EQ(Complaint(text), text + ": proto=rdma+tcp needs vers=4.1 or 4.2");
  }
  for (const std::string version : {"4.1", "4.2"}) Parsed("nfs://h/?proto=rdma+tcp&vers=" + version);
}

TEST(Url, BothTransportsNeedAConnectionOfEach) {
  const std::string text = "nfs://h/?nconnect=1&proto=rdma+tcp";
  EXPECT_EQ(Complaint(text), text + ": proto=rdma+tcp needs nconnect=2 or more");
}

TEST(Url, BothTransportsHaveNoTls) {
  const std::string text = "nfs://h/?proto=rdma+tcp&xprtsec=tls";
  EXPECT_EQ(Complaint(text), text + ": xprtsec=tls needs proto=tcp: RDMA has no TLS");
}

TEST(Url, ThePortOfTcpNeedsBothTransports) {
  for (const std::string proto : {"", "proto=rdma&", "proto=tcp&"}) {
    const std::string text = "nfs://h/?" + proto + "tcpport=2049";
    EXPECT_EQ(Complaint(text), text + ": tcpport needs proto=rdma+tcp");
  }
  for (const std::string port : {"0", "65536", "-1", "tcp"}) {
    const std::string text = "nfs://h/?proto=rdma+tcp&tcpport=" + port;
    EXPECT_EQ(Complaint(text), text + ": tcpport must be a port number from 1 to 65535");
  }
}

TEST(Url, OtherVersionsDoNotStepUp) {
  for (const std::string version : {"", "vers=3&", "vers=4.0&", "vers=4.1&", "vers=4.2&"}) {
    const std::string text = "nfs://h/?" + version + "proto=stepup";
    EXPECT_EQ(Complaint(text), text + ": proto=stepup needs vers=4.1-sess01");
  }
}

TEST(Url, TheVersionOfTheCommandLineDecidesOnTheOptions) {
  const std::string text = "nfs://h/?proto=stepup&channels=2";
  const auto url = Url::Parse(text, {}, Option("vers", "4.1-sess01", "--vers"));
  ASSERT_TRUE(url) << url.error().message;
  EXPECT_EQ(url->session.channels, 2u);
  const auto refused = Url::Parse("nfs://h/?vers=4.1-sess01&channels=2", {}, Option("vers", "4.2", "--vers"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "nfs://h/?vers=4.1-sess01&channels=2: channels needs vers=4.1-sess01; --vers asks for that");
}

TEST(Url, PaddingNeedsRdma) {
  EXPECT_EQ(Parsed("nfs://h/?vers=4.1-sess01&proto=stepup&pad=64").session.padding, 64u);
  EXPECT_EQ(Parsed("nfs://h/?vers=4.1-sess01&pad=0").session.padding, 0u);
  const std::string text = "nfs://h/?vers=4.1-sess01&pad=64";
  EXPECT_EQ(Complaint(text), text + ": pad needs proto=rdma or proto=stepup");
}

TEST(Url, NamesASecurityFlavor) {
  using nfs_protocol::SecurityFlavor;
  EXPECT_EQ(Parsed("nfs://h/").security, std::nullopt);
  EXPECT_EQ(Parsed("nfs://h/?sec=none").security, SecurityFlavor::kNone);
  EXPECT_EQ(Parsed("nfs://h/?sec=sys").security, SecurityFlavor::kSys);
  EXPECT_EQ(Parsed("nfs://h/?sec=krb5&vers=3&proto=rdma").security, SecurityFlavor::kKrb5);
  EXPECT_EQ(Parsed("nfs://h/?sec=krb5i").security, SecurityFlavor::kKrb5i);
  EXPECT_EQ(Parsed("nfs://h/?sec=krb5p&vers=4.0").security, SecurityFlavor::kKrb5p);
  for (const std::string flavor : {"", "krb", "KRB5", "ccm", "gss"}) {
    const std::string text = "nfs://h/?sec=" + flavor;
    EXPECT_EQ(Complaint(text), text +
                                   ": sec must be none, sys, krb5, krb5i, krb5p or a list of them such as "
                                   "krb5p:krb5i, and '" +
                                   flavor + "' is not");
  }
}

TEST(Url, NamesSeveralSecurityFlavors) {
  using enum nfs_protocol::SecurityFlavor;
  using nfs_protocol::SecurityFlavors;
  const Url url = Parsed("nfs://h/?sec=krb5p:krb5:sys");
  EXPECT_EQ(url.security, std::nullopt);
  EXPECT_EQ(url.flavors, (SecurityFlavors{kKrb5p, kKrb5, kSys}));
  EXPECT_TRUE(Parsed("nfs://h/?sec=krb5").flavors.empty());
  const auto one = Url::Parse("nfs://h/?sec=krb5:sys", {}, Option("sec", "none", "--sec"));
  ASSERT_TRUE(one);
  EXPECT_EQ(one->security, kNone);
  EXPECT_TRUE(one->flavors.empty()) << "the option replaces the list";
  const auto list = Url::Parse("nfs://h/?sec=sys", {}, Option("sec", "krb5:none", "--sec"));
  ASSERT_TRUE(list);
  EXPECT_EQ(list->security, std::nullopt);
  EXPECT_EQ(list->flavors, (SecurityFlavors{kKrb5, kNone}));
}

TEST(Url, NamesTheUnknownFlavorOfAList) {
  for (const auto& [value, wrong] : {std::pair<std::string, std::string>{"krb5:lkey", "lkey"},
                                     {"krb5:", ""},
                                     {":sys", ""},
                                     {"ccm:sys", "ccm"},
                                     {"sys,krb5", "sys,krb5"}}) {
    EXPECT_THAT(Complaint("nfs://h/?sec=" + value), testing::EndsWith("and '" + wrong + "' is not"));
  }
  EXPECT_THAT(Complaint("nfs://h/?sec=sys:krb5:sys"), testing::EndsWith("sec has sys twice"));
}

TEST(Url, SessionsOf2004HaveNoKerberos) {
  const std::string text = "nfs://h/?vers=4.1-sess01&sec=krb5i";
  EXPECT_EQ(Complaint(text), text + ": vers=4.1-sess01 needs sec=sys or sec=none");
  Parsed("nfs://h/?vers=4.1-sess01&sec=sys");
  const std::string list = "nfs://h/?vers=4.1-sess01&sec=sys:krb5i";
  EXPECT_EQ(Complaint(list), list + ": vers=4.1-sess01 needs sec=sys or sec=none");
  Parsed("nfs://h/?vers=4.1-sess01&sec=sys:none");
}

TEST(Url, TheFlavorOfTheCommandLineReplacesThatOfTheUrl) {
  using nfs_protocol::SecurityFlavor;
  EXPECT_EQ(Url::Parse("nfs://h/?sec=sys", {}, Option("sec", "krb5p", "--sec"))->security, SecurityFlavor::kKrb5p);
  EXPECT_EQ(Parsed("nfs://h/?sec=sys").security, SecurityFlavor::kSys);
  const auto refused = Url::Parse("nfs://h/?sec=sys&vers=4.1-sess01", {}, Option("sec", "krb5", "--sec"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "nfs://h/?sec=sys&vers=4.1-sess01: vers=4.1-sess01 needs sec=sys or sec=none; --sec asks for that");
}

TEST(ParseVersion, KnowsTheVersionsThatTheClientSpeaks) {
  EXPECT_EQ(ParseVersion("3"), Version::k3);
  EXPECT_EQ(ParseVersion("4"), Version::k41);
  EXPECT_EQ(ParseVersion("4.0"), Version::k40);
  EXPECT_EQ(ParseVersion("4.2"), Version::k42);
  EXPECT_EQ(ParseVersion("4.1-sess01"), Version::kSess01);
  for (const char* text : {"", "2", "3.0", "4.3", "5", "v3", "4.0-sess01", "sess01"})
    EXPECT_EQ(ParseVersion(text), std::nullopt) << text;
}

TEST(Url, ParsesTheProtectionOfConnections) {
  EXPECT_EQ(Parsed("nfs://h/").transport_security, TransportSecurity::kNone);
  EXPECT_EQ(Parsed("nfs://h/?xprtsec=none").transport_security, TransportSecurity::kNone);
  EXPECT_EQ(Parsed("nfs://h/?xprtsec=opportunistic").transport_security, TransportSecurity::kOpportunistic);
  EXPECT_EQ(Parsed("nfs://h/?xprtsec=tls").transport_security, TransportSecurity::kTls);
  EXPECT_EQ(Parsed("nfs://h/?xprtsec=mtls&vers=3").transport_security, TransportSecurity::kMutualTls);
  for (const char* const value : {"xprtsec", "xprtsec=", "xprtsec=TLS", "xprtsec=on"}) {
    const std::string text = std::string("nfs://h/?") + value;
    EXPECT_EQ(Complaint(text), text + ": xprtsec must be none, opportunistic, tls or mtls");
  }
  EXPECT_EQ(Complaint("nfs://h/?proto=rdma&xprtsec=tls"),
            "nfs://h/?proto=rdma&xprtsec=tls: xprtsec=tls needs proto=tcp: RDMA has no TLS");
  EXPECT_EQ(Parsed("nfs://h/?proto=rdma&xprtsec=none").transport_security, TransportSecurity::kNone);
}

}  // namespace
}  // namespace penstock::client
