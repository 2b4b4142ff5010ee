#include "nfs/export_options.h"

#include <gtest/gtest.h>

#include "base/address.h"

namespace penstock::nfs {
namespace {

bool Contains(std::string_view network, const char* address) {
  return Network::Parse(network)->Contains(asio::ip::make_address(address));
}

std::string ComplaintAboutExport(std::string_view spec) {
  const auto parsed = ParseExportSpec(spec);
  return parsed ? "no error" : parsed.error().message;
}

TEST(Network, ContainsTheAddressesWithItsPrefix) {
  EXPECT_TRUE(Contains("10.0.0.0/8", "10.255.1.2"));
  EXPECT_FALSE(Contains("10.0.0.0/8", "11.0.0.1"));
  EXPECT_TRUE(Contains("192.0.2.128/25", "192.0.2.129"));
  EXPECT_FALSE(Contains("192.0.2.128/25", "192.0.2.127"));
  EXPECT_TRUE(Contains("fd00::/8", "fdff::1"));
  EXPECT_FALSE(Contains("fd00::/8", "fe80::1"));
  EXPECT_TRUE(Contains("0.0.0.0/0", "203.0.113.9"));
}

TEST(Network, SingleAddressIsANetworkOfOneHost) {
  EXPECT_TRUE(Contains("192.0.2.7", "192.0.2.7"));
  EXPECT_FALSE(Contains("192.0.2.7", "192.0.2.6"));
  EXPECT_TRUE(Contains("::1", "::1"));
}

TEST(Network, SeparatesIpv4AndIpv6ExceptForMappedAddresses) {
  EXPECT_FALSE(Contains("0.0.0.0/0", "::1"));
  EXPECT_FALSE(Contains("::/0", "192.0.2.7"));
  EXPECT_TRUE(Contains("192.0.2.0/24", "::ffff:192.0.2.7"));
}

TEST(Network, RejectsMalformedNetworks) {
  for (const char* text :
       {"", "10.0.0/8", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/8x", "10.0.0.0/-1", "host"}) {
    EXPECT_FALSE(Network::Parse(text)) << text;
  }
}

TEST(ExportPath, AcceptsAbsolutePathsAndNormalizesThem) {
  EXPECT_EQ(*NormalizeExportPath("/"), "/");
  EXPECT_EQ(*NormalizeExportPath("//data///sub/"), "/data/sub");
  EXPECT_FALSE(NormalizeExportPath("data"));
  EXPECT_FALSE(NormalizeExportPath(""));
  EXPECT_FALSE(NormalizeExportPath("/data/../etc"));
  EXPECT_FALSE(NormalizeExportPath("/./data"));
  EXPECT_TRUE(NormalizeExportPath("/" + std::string(1023, 'x')));
  EXPECT_FALSE(NormalizeExportPath("/" + std::string(1024, 'x')));
}

TEST(ExportSpec, DefaultsToWritableForAllHostsWithForeignRootSquashed) {
  const auto spec = ParseExportSpec("/data=/srv/data");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->path, "/data");
  EXPECT_EQ(spec->directory, "/srv/data");
  EXPECT_FALSE(spec->admissions[0].options.read_only);
  EXPECT_EQ(spec->admissions[0].options.squash, Squash::kForeignRoot);
  EXPECT_EQ(spec->admissions[0].options.anonuid, 65534u);
  EXPECT_EQ(spec->admissions[0].clients, ClientSpec());
  EXPECT_FALSE(spec->admissions[0].options.privileged_ports);
  EXPECT_EQ(spec->admissions[0].options.security, SecurityFlavors{SecurityFlavor::kSys});
}

TEST(ExportSpec, ParsesEveryOption) {
  const auto spec = ParseExportSpec(
      "/data=/srv/data:ro,all_squash,anonuid=1000,anongid=4294967295,client=10.0.0.0/8,client=fd00::/8,secure,"
      "sec=krb5p:sys");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_TRUE(spec->admissions[0].options.read_only);
  EXPECT_EQ(spec->admissions[0].options.squash, Squash::kAll);
  EXPECT_EQ(spec->admissions[0].options.anonuid, 1000u);
  EXPECT_EQ(spec->admissions[0].options.anongid, 4294967295u);
  ASSERT_EQ(spec->admissions.size(), 2u);
  EXPECT_EQ(spec->admissions[1].clients.ToString(), "fd00::/8");
  EXPECT_TRUE(spec->admissions[0].options.privileged_ports);
  EXPECT_EQ(spec->admissions[0].options.security, (SecurityFlavors{SecurityFlavor::kKrb5p, SecurityFlavor::kSys}));
}

TEST(ExportSpec, TakesADirectoryOfCephfsWithoutBackslashes) {
  const auto spec = ParseExportSpec("/x=ceph:/a/b?conf=/etc/ceph/other.conf&fs=archive:ro,client=192.0.2.0/24");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_TRUE(spec->is_cephfs());
  EXPECT_EQ(spec->directory, "ceph:/a/b?conf=/etc/ceph/other.conf&fs=archive");
  EXPECT_TRUE(spec->admissions.front().options.read_only);
  EXPECT_FALSE(ParseExportSpec("/x=/ceph")->is_cephfs());
}

TEST(ExportSpec, RefusesOptionsThatCephfsHasNoUseFor) {
  EXPECT_NE(ComplaintAboutExport("/x=ceph:/a:mountpoint").find("mountpoint"), std::string::npos);
  EXPECT_NE(ComplaintAboutExport("/x=ceph:/a:refer=/y@192.0.2.1").find("refer="), std::string::npos);
  const auto spec = ParseExportSpec("/x=ceph:/a:crossmnt");
  ASSERT_TRUE(spec);
  EXPECT_FALSE(spec->crosses_mounts);
  ASSERT_EQ(spec->notes.size(), 1u);
  EXPECT_NE(spec->notes.front().find("crossmnt"), std::string::npos);
}

TEST(ExportSpec, UsesTheLastOfOppositeOptions) {
  EXPECT_FALSE(ParseExportSpec("/=/srv:ro,rw")->admissions[0].options.read_only);
  EXPECT_EQ(ParseExportSpec("/=/srv:no_root_squash,root_squash")->admissions[0].options.squash, Squash::kRoot);
  EXPECT_EQ(ParseExportSpec("/=/srv:no_root_squash")->admissions[0].options.squash, Squash::kNone);
}

TEST(ExportSpec, AcceptsEqualsSignsAndEscapedColonsInTheDirectory) {
  const auto spec = ParseExportSpec(R"(/data=/srv/a=b\:c:ro)");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->directory, "/srv/a=b:c");
  EXPECT_TRUE(spec->admissions[0].options.read_only);
}

TEST(ExportSpec, HasLocationsOnOtherServers) {
  const auto referral = ParseExportSpec("/far=/none:refer=/srv/a@one+two:/b@[2001:db8::1],sec=krb5");
  ASSERT_TRUE(referral);
  EXPECT_TRUE(referral->admissions[0].options.locations.referral);
  EXPECT_EQ(referral->admissions[0].options.locations.list,
            (std::vector<Location>{{"/srv/a", {"one", "two"}}, {"/b", {"2001:db8::1"}}}));
  EXPECT_EQ(referral->admissions[0].options.security, SecurityFlavors{SecurityFlavor::kKrb5});
  const auto replicas = ParseExportSpec("/data=/srv:ro,replicas=/data@other");
  ASSERT_TRUE(replicas);
  EXPECT_FALSE(replicas->admissions[0].options.locations.referral);
  EXPECT_EQ(replicas->admissions[0].options.locations.list, (std::vector<Location>{{"/data", {"other"}}}));
  EXPECT_EQ(ComplaintAboutExport("/far=/none:refer=/a"),
            "export option refer=/a: \"/a\" names no host: write PATH@HOST[+HOST]");
  EXPECT_EQ(ComplaintAboutExport("/far=/none:refer"), "unknown export option \"refer\"");
  EXPECT_EQ(ComplaintAboutExport("/far=/none:refer=/a@one,refer=/a@two"),
            "the export option refer= is given twice: write all locations in one, with \":\" between them");
  EXPECT_EQ(ComplaintAboutExport("/far=/none:refer=/a@one,replicas=/a@two"),
            "the export options refer= and replicas= exclude each other");
  EXPECT_EQ(ComplaintAboutExport("/=/none:refer=/a@one"),
            "export \"/\" cannot have the option refer=: clients find the other exports below it");
}

TEST(ExportSpec, AsksForTls) {
  EXPECT_EQ(ParseExportSpec("/data=/srv")->admissions[0].options.protections, Protections());
  const auto spec = ParseExportSpec("/data=/srv:ro,xprtsec=mtls,cert=a.example,cert=192.0.2.1,cert=address");
  ASSERT_TRUE(spec);
  EXPECT_TRUE(spec->admissions[0].options.protections.IsOnlyMutualTls());
  EXPECT_EQ(spec->admissions[0].options.certificates, (std::vector<std::string>{"a.example", "192.0.2.1"}));
  EXPECT_TRUE(spec->admissions[0].options.certificate_of_address);
  EXPECT_EQ(ComplaintAboutExport("/data=/srv:xprtsec=ssl"),
            "export option xprtsec=ssl: \"ssl\" is unknown: choose of none, tls, mtls");
  EXPECT_EQ(ComplaintAboutExport("/data=/srv:xprtsec=mtls,cert=*.example"),
            "export option cert=*.example: neither a host name, nor an address, nor \"address\"");
  for (const char* const rest : {"cert=a.example", "xprtsec=tls:mtls,cert=a.example", "cert=address"}) {
    EXPECT_EQ(ComplaintAboutExport(std::string("/data=/srv:") + rest),
              "export \"/data\" with cert= needs xprtsec=mtls: other clients show no certificate");
  }
}

TEST(ExportSpec, ReportsEachError) {
  EXPECT_EQ(ComplaintAboutExport("/data"),
            "export \"/data\": write PATH=DIR[:options], for example /data=/srv/data:ro");
  EXPECT_EQ(ComplaintAboutExport("data=/srv"), "export path \"data\" does not begin with a slash");
  EXPECT_EQ(ComplaintAboutExport("/data="), "export \"/data=\" names no directory");
  EXPECT_EQ(ComplaintAboutExport("/data=/srv:fast"), "unknown export option \"fast\"");
  EXPECT_EQ(ComplaintAboutExport("/data=/srv:speed=9"), "unknown export option \"speed=9\"");
  EXPECT_EQ(ComplaintAboutExport("/data=/srv:anonuid=root"),
            "export option anonuid=root: not a number from 0 to 4294967295");
  EXPECT_EQ(ComplaintAboutExport("/data=/srv:anonuid"), "unknown export option \"anonuid\"");
  EXPECT_EQ(ComplaintAboutExport("/data=/srv:client=10.0.0.0/99"),
            "export option client=10.0.0.0/99: not a network such as 10.0.0.0/8, 10.0.0.0/255.0.0.0 or fd00::/8");
  EXPECT_EQ(ComplaintAboutExport("/data=/srv:sec=krb6"),
            "export option sec=krb6: \"krb6\" is no security flavor: choose of sys, krb5, krb5i, krb5p, ccm, none");
}

}  // namespace
}  // namespace penstock::nfs
