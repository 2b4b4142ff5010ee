#include "nfs/exports_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace penstock::nfs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ExportsFileTest : public testing::Test {
 protected:
  const std::vector<ExportSpec>& Parse(std::string_view text) {
    files.Parse(text, "exports");
    files.Finish();
    return files.exports();
  }
  std::vector<std::string> Findings() const {
    std::vector<std::string> lines;
    for (const Finding& each : const_cast<ExportsFiles&>(files).findings()) lines.push_back(ToString(each));
    return lines;
  }
  const ExportOptions& Of(std::string_view path, std::string_view client) {
    for (const ExportSpec& spec : files.exports()) {
      if (spec.path != path) continue;
      for (const Admission& each : spec.admissions) {
        if (each.clients.ToString() == client) return each.options;
      }
    }
    ADD_FAILURE() << path << " is not exported to " << client;
    static const ExportOptions none;
    return none;
  }

  ExportsFiles files;
};

TEST_F(ExportsFileTest, ReadsTheExamplesOfTheManual) {
  const auto& exports = Parse(
      "# sample /etc/exports file\n"
      "/               master(rw) trusty(rw,no_root_squash)\n"
      "/projects       proj*.local.domain(rw)\n"
      "/usr            *.local.domain(ro) @trusted(rw)\n"
      "/home/joe       pc001(rw,all_squash,anonuid=150,anongid=100)\n"
      "/pub            *(ro,insecure,all_squash)\n"
      "/srv/www        -sync,rw server @trusted @external(ro)\n"
      "/foo            2001:db8:9:e54::/64(rw) 192.0.2.0/24(rw)\n"
      "/build          buildhost[0-9].local.domain(rw)\n");
  EXPECT_THAT(Findings(), IsEmpty());
  ASSERT_EQ(exports.size(), 8u);
  EXPECT_FALSE(Of("/", "master").read_only);
  EXPECT_EQ(Of("/", "master").squash, Squash::kRoot);
  EXPECT_EQ(Of("/", "trusty").squash, Squash::kNone);
  EXPECT_TRUE(Of("/usr", "*.local.domain").read_only);
  EXPECT_FALSE(Of("/usr", "@trusted").read_only);
  EXPECT_EQ(Of("/home/joe", "pc001").anonuid, 150u);
  EXPECT_EQ(Of("/home/joe", "pc001").anongid, 100u);
  EXPECT_EQ(Of("/pub", "*").squash, Squash::kAll);
  EXPECT_FALSE(Of("/pub", "*").privileged_ports);
  EXPECT_TRUE(Of("/srv/www", "server").privileged_ports);
  EXPECT_FALSE(Of("/srv/www", "@trusted").read_only);
  EXPECT_TRUE(Of("/srv/www", "@external").read_only);
  EXPECT_FALSE(Of("/foo", "2001:db8:9:e54::/64").read_only);
  EXPECT_EQ(exports[3].directory, "/home/joe");
  EXPECT_EQ(exports[3].place, "exports:5");
}

TEST_F(ExportsFileTest, ClientsWithoutOptionsGetThoseOfTheManual) {
  Parse("/data 192.0.2.1\n");
  const ExportOptions& options = Of("/data", "192.0.2.1");
  EXPECT_TRUE(options.read_only);
  EXPECT_EQ(options.squash, Squash::kRoot);
  EXPECT_TRUE(options.privileged_ports);
  EXPECT_EQ(options.security, SecurityFlavors{SecurityFlavor::kSys});
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(ExportsFileTest, ADirectoryOfCephfsFollowsItsPath) {
  const auto& exports = Parse(
      "/home=ceph:/volumes/home?fs=archive *(rw)\n"
      "ceph:/other *(rw)\n"
      "/home other(ro)\n");
  ASSERT_FALSE(exports.empty());
  EXPECT_EQ(exports.front().path, "/home");
  EXPECT_EQ(exports.front().directory, "ceph:/volumes/home?fs=archive");
  EXPECT_THAT(Findings(), ElementsAre(HasSubstr("write PATH=ceph:/other"),
                                      HasSubstr("/home is exported as /home and as ceph:/volumes/home?fs=archive")));
}

TEST_F(ExportsFileTest, JoinsLinesAndReadsQuotesAndOctalEscapes) {
  const auto& exports = Parse(
      "\"/srv/a b\" \\\n"
      "   192.0.2.1(rw) \\\n"
      "   192.0.2.2\n"
      "/srv/c\\040d 192.0.2.1 # a comment (rw)\n"
      "/srv/e\\043 192.0.2.1\r\n");
  EXPECT_THAT(Findings(), IsEmpty());
  ASSERT_EQ(exports.size(), 3u);
  EXPECT_EQ(exports[0].path, "/srv/a b");
  EXPECT_EQ(exports[0].admissions.size(), 2u);
  EXPECT_EQ(exports[1].path, "/srv/c d");
  EXPECT_EQ(exports[1].place, "exports:4");
  EXPECT_EQ(exports[1].admissions.size(), 1u);
  EXPECT_EQ(exports[2].path, "/srv/e#");
}

TEST_F(ExportsFileTest, LinesOfOnePathAreOneExport) {
  const auto& exports = Parse("/data 192.0.2.1\n/home *\n/data/ 192.0.2.2(rw)\n");
  ASSERT_EQ(exports.size(), 2u);
  EXPECT_EQ(exports[0].admissions.size(), 2u);
  EXPECT_FALSE(Of("/data", "192.0.2.2").read_only);
}

TEST_F(ExportsFileTest, NamesEveryMistakeWithItsLine) {
  Parse(
      "data 192.0.2.1\n"
      "/a 192.0.2.1(rw,bad,worse)\n"
      "/b 192.0.2.0/40\n"
      "/c 192.0.2.1(rw\n"
      "/d 192.0.2.1(rw, sync)\n"
      "/e \"192.0.2.1\n"
      "/f 192.0.2.1(anonuid=x)\n"
      "/../g *\n"
      "/h *(sec=krb6)\n");
  EXPECT_THAT(Findings(),
              ElementsAre(HasSubstr("exports:1: export path \"data\" does not begin with a slash"),
                          "exports:2: unknown export option \"bad\"", "exports:2: unknown export option \"worse\"",
                          HasSubstr("exports:3: \"192.0.2.0/40\": not a network"),
                          HasSubstr("exports:4: \"192.0.2.1(rw\": the options of a client stand in one pair"),
                          HasSubstr("exports:5: \"192.0.2.1(rw,\": the options"),
                          HasSubstr("exports:5: \"sync)\": the options"), "exports:6: a quotation mark is missing",
                          HasSubstr("exports:7: export option anonuid=x"), HasSubstr("exports:8: export path"),
                          HasSubstr("exports:9: export option sec=krb6")));
  EXPECT_THAT(files.exports(), IsEmpty());
}

// A space that should not be there gives everyone the options that were meant for one client.
TEST_F(ExportsFileTest, WarnsOfOptionsThatFollowNoClient) {
  Parse("/data 192.0.2.1 (rw)\n");
  EXPECT_THAT(Findings(), ElementsAre(HasSubstr("exports:1: warning: the options (rw) follow no client")));
  EXPECT_TRUE(Of("/data", "192.0.2.1").read_only);
  EXPECT_FALSE(Of("/data", "*").read_only);
}

TEST_F(ExportsFileTest, WarnsOfALineWithoutClients) {
  Parse("/data\n");
  EXPECT_THAT(Findings(), ElementsAre(HasSubstr("exports:1: warning: no clients are given")));
  EXPECT_TRUE(Of("/data", "*").read_only);
}

TEST_F(ExportsFileTest, NamesOptionsWithoutEffectOnce) {
  Parse("/data 192.0.2.1(async,fsid=7) 192.0.2.2(async,pnfs) 192.0.2.3(wdelay,no_subtree_check,hide,sync)\n");
  EXPECT_THAT(Findings(),
              ElementsAre(HasSubstr("exports:1: warning: the option async has no effect: the server always"),
                          HasSubstr("exports:1: warning: the option fsid=7 has no effect"),
                          HasSubstr("exports:1: warning: the option pnfs has no effect")));
}

TEST_F(ExportsFileTest, OptionsAfterSecHoldForItsFlavors) {
  Parse("/data *(ro,sec=sys,all_squash,sec=krb5:krb5p,rw)\n/one *(sec=krb5,rw,no_root_squash)\n");
  EXPECT_THAT(Findings(), IsEmpty());
  const ExportOptions& data = Of("/data", "*");
  EXPECT_EQ(data.security, (SecurityFlavors{SecurityFlavor::kSys, SecurityFlavor::kKrb5, SecurityFlavor::kKrb5p}));
  EXPECT_TRUE(data.IsReadOnlyFor(SecurityFlavor::kSys));
  EXPECT_EQ(data.SquashFor(SecurityFlavor::kSys), Squash::kAll);
  EXPECT_FALSE(data.IsReadOnlyFor(SecurityFlavor::kKrb5p));
  EXPECT_EQ(data.SquashFor(SecurityFlavor::kKrb5), Squash::kRoot);
  const ExportOptions& one = Of("/one", "*");
  EXPECT_FALSE(one.read_only);
  EXPECT_EQ(one.squash, Squash::kNone);
  EXPECT_THAT(one.by_flavor, IsEmpty());
}

TEST_F(ExportsFileTest, AnEntryForGssIsOneForEveryoneWithThatFlavor) {
  Parse("/data gss/krb5(rw)\n/both *(ro) gss/krb5i(rw)\n");
  EXPECT_THAT(Findings(), IsEmpty());
  EXPECT_EQ(Of("/data", "*").security, SecurityFlavors{SecurityFlavor::kKrb5});
  EXPECT_FALSE(Of("/data", "*").read_only);
  EXPECT_TRUE(Of("/both", "*").IsReadOnlyFor(SecurityFlavor::kSys));
  EXPECT_FALSE(Of("/both", "*").IsReadOnlyFor(SecurityFlavor::kKrb5i));
}

TEST_F(ExportsFileTest, AnEntryForGssCannotHaveOtherOptionsThanTheOneBesideIt) {
  Parse("/data *(rw,sec=sys) gss/krb5(rw,xprtsec=mtls)\n");
  EXPECT_THAT(Findings(), ElementsAre(HasSubstr("exports:1: gss/krb5(rw,xprtsec=mtls) and * differ in more than")));
}

TEST_F(ExportsFileTest, KnowsOptionsOfTheWholeExport) {
  const auto& exports = Parse("/srv *(fsid=0,crossmnt)\n/disk *(mp)\n/part *(mountpoint=/disk)\n/other *(fsid=root)\n");
  EXPECT_TRUE(exports[0].is_root);
  EXPECT_TRUE(exports[0].crosses_mounts);
  EXPECT_EQ(exports[1].mount_point, "");
  EXPECT_EQ(exports[2].mount_point, "/disk");
  EXPECT_THAT(Findings(), ElementsAre(HasSubstr("exports:4: /other has fsid=0, and another export has it, too")));
}

TEST_F(ExportsFileTest, AReferralIsTheSameForAllClients) {
  Parse("/far 192.0.2.1(refer=/srv@server2.example) 192.0.2.2\n");
  EXPECT_THAT(Findings(), ElementsAre(HasSubstr("exports:1: /far: refer= and replicas= must be the same")));
}

TEST_F(ExportsFileTest, TheFirstOfTwoEntriesForAClientHolds) {
  Parse("/data 192.0.2.1(rw)\n/data 192.0.2.1(ro)\n");
  EXPECT_THAT(Findings(), ElementsAre(HasSubstr("exports:2: warning: /data is exported to 192.0.2.1 twice")));
  EXPECT_FALSE(Of("/data", "192.0.2.1").read_only);
}

TEST_F(ExportsFileTest, NegativeIdsAreTheSameBits) {
  Parse("/data *(anonuid=-2,anongid=-1)\n");
  EXPECT_EQ(Of("/data", "*").anonuid, 4294967294u);
  EXPECT_EQ(Of("/data", "*").anongid, 4294967295u);
}

TEST_F(ExportsFileTest, AnyOctetsLeadToFindingsOnly) {
  std::string text;
  uint32_t state = 1;
  for (int i = 0; i < 100000; ++i) {
    state = state * 1664525 + 1013904223;
    constexpr std::string_view kLikely = "/\\\"()#-,=@*[] \n\t'0xsec";
    text += (state >> 28) < 12 ? kLikely[(state >> 8) % kLikely.size()] : static_cast<char>(state >> 16);
  }
  Parse(text);
  EXPECT_FALSE(files.findings().empty());
}

TEST_F(ExportsFileTest, ReadsTheTablesOfADirectoryInTheOrderOfTheirNames) {
  std::string name = testing::TempDir() + "/exports.XXXXXX";
  ASSERT_TRUE(::mkdtemp(name.data()));
  const std::filesystem::path directory = name;
  std::ofstream(directory / "b.exports") << "/b *\n";
  std::ofstream(directory / "a.exports") << "/a *\n";
  std::ofstream(directory / ".hidden.exports") << "/hidden *\n";
  std::ofstream(directory / "c.exports.bak") << "/backup *\n";
  files.Read(directory);
  files.Read(directory / "missing");
  files.Finish();
  std::vector<std::string> paths;
  for (const ExportSpec& each : files.exports()) paths.push_back(each.path);
  EXPECT_THAT(paths, ElementsAre("/a", "/b"));
  EXPECT_THAT(Findings(), ElementsAre(HasSubstr("missing: cannot be read: No such file or directory")));
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace penstock::nfs
