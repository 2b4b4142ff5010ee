#include "cli/configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/test_parser.h"

namespace penstock::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The values of a command line.
FlagValues Flags(std::vector<std::string> arguments) {
  ServeOptions options;
  CLI::App command;
  const Settings settings = AddServeOptions(command, options);
  std::reverse(arguments.begin(), arguments.end());
  command.parse(std::move(arguments));
  return FlagValuesOf(settings);
}

ConfigFile File(std::string text) { return {.name = "f.toml", .text = std::move(text)}; }

// The mistakes of a file as lines.
std::vector<std::string> MistakesOf(std::string text) {
  const auto made = Configure({}, {}, File(std::move(text)));
  std::vector<std::string> lines;
  if (made) return lines;
  for (const Finding& each : made.error()) lines.push_back(ToString(each));
  return lines;
}

TEST(Configuration, AFlagPrecedesAVariableAndAVariablePrecedesTheFile) {
  const ConfigFile file = File(
      "[server]\nworkers = 3\nthreads = 3\n[limits]\nmax-connections = 3\n[exports]\nexport = ['/a=/a', '/b=/b']\n");
  const Environment environment = {
      {"PENSTOCK_WORKERS", "2"}, {"PENSTOCK_THREADS", "2"}, {"PENSTOCK_EXPORT", "/c=/c /d=/d"}};
  const auto made = Configure(Flags({"--workers=1", "--listen=::1"}), environment, file);
  ASSERT_TRUE(made) << ToString(made.error().front());
  EXPECT_EQ(made->options.workers, 1u);
  EXPECT_EQ(made->options.threads, 2u);
  EXPECT_EQ(made->options.max_connections, 3u);
  EXPECT_EQ(made->options.listen.mount_port, 20048);
  EXPECT_THAT(made->options.exports, ElementsAre("/c=/c", "/d=/d"));
  EXPECT_EQ(ToString(made->sources.at("server.workers")), "flag");
  EXPECT_EQ(ToString(made->sources.at("server.threads")), "environment PENSTOCK_THREADS");
  EXPECT_EQ(ToString(made->sources.at("limits.max-connections")), "f.toml:5");
  EXPECT_EQ(ToString(made->sources.at("listen.mount-port")), "default");
}

TEST(Configuration, ReadsEachTypeOfValue) {
  const auto made = Configure({}, {},
                              File("[limits]\nmemory = '48MiB'\nidle-limit = 0.5\nstall-limit = 7\n"
                                   "[nfs4]\ndelegations = false\nnfs4-domain = 'none'\n"
                                   "[rdma]\ncrc = false\n[protocols]\nnfs2 = true\n"
                                   "[security]\nccm-from = '10.0.0.0/8'\n[exports]\ndir = '/srv'\n"));
  ASSERT_TRUE(made) << ToString(made.error().front());
  EXPECT_EQ(made->options.memory, 48u << 20);
  EXPECT_EQ(made->options.idle_seconds, 0.5);
  EXPECT_EQ(made->options.stall_seconds, 7);
  EXPECT_FALSE(made->options.delegations);
  EXPECT_EQ(made->options.nfs4_domain, "none");
  EXPECT_FALSE(made->options.crc);
  EXPECT_TRUE(made->options.nfs2);
  EXPECT_THAT(made->options.ccm_from, ElementsAre("10.0.0.0/8"));
  EXPECT_EQ(made->options.directory, "/srv");
  EXPECT_EQ(Configure({}, {}, File("limits.memory = 33554432"))->options.memory, 32u << 20);
}

TEST(Configuration, AFlagTakesBackWhatTheFileTurnsOn) {
  const ConfigFile file = File("[protocols]\nnfs2 = true\n[nfs4]\ndelegations = false\n");
  const auto made = Configure(Flags({"--nfs2=false", "--delegations"}), {}, file);
  ASSERT_TRUE(made);
  EXPECT_FALSE(made->options.nfs2);
  EXPECT_TRUE(made->options.delegations);
  EXPECT_FALSE(Configure(Flags({"--no-delegations"}), {}, {})->options.delegations);
  EXPECT_FALSE(Configure({}, {{"PENSTOCK_DELEGATIONS", "off"}}, {})->options.delegations);
}

TEST(Configuration, ReportsEveryMistakeOfAFileWithItsLine) {
  EXPECT_THAT(
      MistakesOf("memory = 1\n"                        // 1
                 "[limits]\n"                          // 2
                 "memory = 1\n"                        // 3
                 "max-connections = \"many\"\n"        // 4
                 "max-conections = 4\n"                // 5
                 "idle-limit = nan\n"                  // 6
                 "stall-limit = 1\nstall-limit = 2\n"  // 7, 8
                 "[listen]\n"                          // 9
                 "tcp-port = 65536\n"                  // 10
                 "rpcbind = 'yes'\n"                   // 11
                 "portmap = 1\n"                       // 12
                 "lease = 90\n"                        // 13
                 "[lmits]\nfoo = 1\n"                  // 14
                 "[exports]\nexport = [\n'/a=/a',\n"   // 16, 17, 18
                 "'a=/a',\n7]\n"                       // 19, 20
                 "[nfs4]\nlease = [90]\n"              // 21, 22
                 "[security\n"                         // 23
                 "[tls]\ntls-cert = '/cert'\n"),       // 24, 25
      ElementsAre("f.toml:1: unknown key memory; memory belongs to the table [limits]",
                  AllOf(HasSubstr("f.toml:3: limits.memory = 1: "), HasSubstr("not in range")),
                  "f.toml:4: limits.max-connections: expected a whole number",
                  "f.toml:5: unknown key limits.max-conections; is max-connections in the table [limits] meant?",
                  HasSubstr("f.toml:6: limits.idle-limit = nan: "), HasSubstr("f.toml:8: "),
                  HasSubstr("f.toml:10: listen.tcp-port = 65536: not a whole number in the range"),
                  HasSubstr("f.toml:11: listen.rpcbind = yes: "), "f.toml:12: listen.portmap: expected true or false",
                  "f.toml:13: unknown key listen.lease; lease belongs to the table [nfs4]",
                  "f.toml:14: unknown table [lmits]", HasSubstr("f.toml:19: exports.export: a=/a: "),
                  "f.toml:20: exports.export: expected a list of texts in quotes",
                  "f.toml:22: nfs4.lease: expected a number", HasSubstr("f.toml:23: "),
                  "f.toml:25: --tls-cert and --tls-key belong together: give both"));
}

TEST(Configuration, ATableCannotBeAValue) {
  EXPECT_THAT(MistakesOf("limits = 1"),
              ElementsAre("f.toml:1: limits is a table: write [limits] in a line of its own"));
  EXPECT_THAT(MistakesOf("[limits.memory]\nx = 1"),
              ElementsAre("f.toml:1: limits.memory: expected a whole number, or a text such as \"512MiB\""));
  EXPECT_THAT(MistakesOf("[[limits]]\nmemory = 1"), testing::SizeIs(1));
}

TEST(Configuration, ChecksAValueOfTheFileThatAFlagReplaces) {
  const auto made = Configure(Flags({"--workers=1"}), {}, File("[server]\nworkers = 0\n"));
  ASSERT_FALSE(made);
  EXPECT_THAT(ToString(made.error().front()), HasSubstr("f.toml:2: server.workers = 0: "));
}

TEST(Configuration, ReportsContradictionsBetweenTheFileAndAFlagAtTheFilesLine) {
  const auto made = Configure(Flags({"--portmap"}), {}, File("\n[listen]\nrpcbind = 'required'\n"));
  ASSERT_FALSE(made);
  EXPECT_THAT(ToString(made.error().front()), HasSubstr("f.toml:3: --portmap takes the place of rpcbind"));
}

TEST(Configuration, ReportsTheVariableWithAWrongValue) {
  const auto made = Configure({}, {{"PENSTOCK_WORKERS", "0"}, {"PENSTOCK_NFS2", "maybe"}}, {});
  ASSERT_FALSE(made);
  std::vector<std::string> lines;
  for (const Finding& each : made.error()) lines.push_back(ToString(each));
  EXPECT_THAT(lines, testing::UnorderedElementsAre(HasSubstr("PENSTOCK_WORKERS=0: "),
                                                   "PENSTOCK_NFS2=maybe: not true or false"));
}

TEST(Configuration, WarnsOfVariablesOfNoOption) {
  const auto made = Configure({},
                              {{"PENSTOCK_MEMRY", "1"},
                               {"PENSTOCK_SEC", "sys"},
                               {"PENSTOCK_KEYTAB", "/client"},
                               {"PENSTOCK_TLS_CA", "/client"},
                               {"PENSTOCK_WORKERS", ""},
                               {"PATH", "/bin"}},
                              {});
  ASSERT_TRUE(made);
  ASSERT_EQ(made->warnings.size(), 1u);
  EXPECT_EQ(ToString(made->warnings[0]),
            "warning: the variable PENSTOCK_MEMRY of the environment belongs to no option");
  EXPECT_EQ(made->options.keytab, "");
  EXPECT_EQ(made->options.tls.authorities, "");
  EXPECT_EQ(made->options.workers, ServeOptions().workers);
}

TEST(Configuration, AnEmptyListReplacesTheDefault) {
  EXPECT_THAT(Configure({}, {}, File("[exports]\nexport = []"))->options.exports, IsEmpty());
}

TEST(Configuration, OptionsForTestsBelongToTheCommandLineAlone) {
  const auto made = Configure(Flags({"--faults=x", "--kept-octets=7"}), {{"PENSTOCK_FAULTS", "y"}}, {});
  ASSERT_TRUE(made);
  EXPECT_EQ(made->options.faults, "x");
  EXPECT_EQ(made->options.kept_octets, 7u);
  EXPECT_THAT(MistakesOf("faults = 'x'"), testing::SizeIs(1));
  EXPECT_THAT(MistakesOf("[server]\nfaults = 'x'"), testing::SizeIs(1));
}

TEST(Configuration, EveryOptionHasAKeyAndAVariableOfItsOwn) {
  ServeOptions options;
  CLI::App command;
  const Settings settings = AddServeOptions(command, options);
  std::set<std::string> keys;
  std::set<std::string> variables;
  size_t shown = 0;
  for (const Setting& setting : settings.all()) {
    if (setting.table.empty()) continue;
    ++shown;
    EXPECT_TRUE(keys.insert(setting.name).second) << setting.name;
    EXPECT_TRUE(variables.insert(setting.variable).second) << setting.variable;
    EXPECT_FALSE(setting.help().empty()) << setting.flag;
    EXPECT_TRUE(!setting.values().empty() || !setting.example.empty()) << setting.flag << " has nothing to show";
  }
  size_t visible = 0;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_group().empty() && option->get_name() != "--help") ++visible;
  }
  EXPECT_EQ(shown, visible) << "an option was added without Settings";
}

TEST(Configuration, WhatItPrintsMakesTheSameConfiguration) {
  const auto first = Configure(
      Flags({"/srv \"x\" \\", "--export=/a=/srv/a:ro", "--export=/b=/srv/b", "--memory=48MiB", "--no-delegations",
             "--idle-limit=0.25", "--keytab=/keys\n", "--crc=off", "--nfs4-domain=none", "--ccm-from=10.0.0.0/8"}),
      {{"PENSTOCK_WORKERS", "5"}}, File("[listen]\ntcp-port = 7\n"));
  ASSERT_TRUE(first) << ToString(first.error().front());
  const std::string text = PrintConfiguration(*first);
  EXPECT_THAT(text, HasSubstr("workers = 5  # environment PENSTOCK_WORKERS\n"));
  EXPECT_THAT(text, HasSubstr("tcp-port = 7  # f.toml:2\n"));
  EXPECT_THAT(text, HasSubstr("delegations = false  # flag\n"));
  EXPECT_THAT(text, HasSubstr("mount-port = 20048  # default\n"));
  EXPECT_THAT(text, HasSubstr("# state-dir is not set  # default\n"));
  const auto again = Configure({}, {}, File(text));
  ASSERT_TRUE(again) << ToString(again.error().front()) << text;
  EXPECT_THAT(Differences(first->options, again->options), IsEmpty());
  EXPECT_EQ(again->options.directory, "/srv \"x\" \\");
  EXPECT_EQ(again->options.keytab, "/keys\n");
}

TEST(Configuration, NamesTheOptionsThatDiffer) {
  EXPECT_THAT(Differences({}, {}), IsEmpty());
  ServeOptions other;
  other.memory = 1;
  other.delegations = false;
  other.exports = {"/a=/a"};
  other.faults = "x";
  other.nfs4_domain = "none";
  EXPECT_THAT(Differences({}, other),
              ElementsAre("exports.export", "limits.memory", "nfs4.delegations", "nfs4.nfs4-domain", "--faults"));
}

TEST(Configuration, EachOptionAloneMakesADifference) {
  ServeOptions defaults;
  CLI::App command;
  const Settings settings = AddServeOptions(command, defaults);
  for (const Setting& setting : settings.all()) {
    if (setting.table.empty()) continue;
    std::string value = setting.example;
    if (const auto values = setting.values(); !values.empty()) {
      value = values.front() == "true"      ? "false"
              : values.front() == "false"   ? "true"
              : setting.flag == "--rpcbind" ? "off"
              : setting.flag == "--rdma"    ? "iwarp"
              : setting.flag == "--sess01"  ? "tcp"
              : setting.flag == "--listen"  ? "::1"
              : setting.flag == "--workers" ? "65"
                                            : "64";
    }
    // Other mistakes do not matter: some options need a second one.
    ServeOptions changed;
    CLI::App parser;
    const Settings others = AddServeOptions(parser, changed);
    const Setting* const same = others.FindKey(setting.key());
    ASSERT_TRUE(same);
    const auto applied = Apply(*same, {value});
    ASSERT_TRUE(applied) << setting.flag << " " << value << ": " << applied.error().message;
    EXPECT_THAT(Differences(defaults, changed), ElementsAre(setting.key()));
  }
}

// In both directions: the file has all options with their values, and no others.
TEST(Configuration, TheSampleInPackagingIsTheProgramsOwn) {
  std::ifstream file(PENSTOCK_SOURCE_DIR "/packaging/penstock.toml");
  std::ostringstream content;
  content << file.rdbuf();
  EXPECT_EQ(content.str(), SampleConfiguration())
      << "make it again: penstock check-config --sample > packaging/penstock.toml";
}

TEST(Configuration, TheSampleChangesNothing) {
  const auto made = Configure({}, {}, File(SampleConfiguration()));
  ASSERT_TRUE(made) << ToString(made.error().front());
  EXPECT_THAT(Differences({}, made->options), IsEmpty());
}

TEST(Configuration, TheSamplesValuesAreTheDefaults) {
  const std::string with_values = std::regex_replace(SampleConfiguration(), std::regex("\n#([a-z])"), "\n$1");
  const std::string defaults = std::regex_replace(with_values, std::regex("\n[^\n#]+# an example[^\n]*"), "\n");
  const auto made = Configure({}, {}, File(defaults));
  ASSERT_TRUE(made) << ToString(made.error().front());
  EXPECT_THAT(Differences({}, made->options), IsEmpty());
  EXPECT_EQ(made->sources.at("listen.tcp-port").kind, Source::Kind::kFile);
  // The examples are valid, too.
  const auto examples = Configure({}, {}, File(with_values));
  ASSERT_TRUE(examples) << ToString(examples.error().front());
  EXPECT_EQ(examples->options.memory, 512u << 20);
}

TEST(Configuration, ChecksFilesThatTheConfigurationNames) {
  const std::vector<Finding> findings =
      CheckConfiguration(File("[exports]\ndir = '/srv'\n[tls]\ntls-cert = '/no/cert'\ntls-key = '/no/key'\n"));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(ToString(findings[0]), HasSubstr("f.toml:4: "));
  EXPECT_THAT(CheckConfiguration(File("[exports]\ndir = '/srv'\n")), IsEmpty());
  EXPECT_EQ(CheckConfiguration(File("")).size(), 1u);
}

class ConfigFiles : public testing::Test {
 protected:
  ConfigFiles() { std::ofstream(name_) << "[server]\nworkers = 3\n"; }
  ~ConfigFiles() override { ::unlink(name_.c_str()); }
  const std::string name_ = testing::TempDir() + "configuration_test." + std::to_string(::getpid());
};

TEST_F(ConfigFiles, TheFlagPrecedesTheVariable) {
  const Environment environment = {{"PENSTOCK_CONFIG", name_}};
  const auto by_variable = FindConfigFile({}, environment);
  ASSERT_TRUE(by_variable && *by_variable);
  EXPECT_EQ((*by_variable)->name, name_);
  EXPECT_EQ(NamedConfigFile({}, environment), name_);
  EXPECT_EQ(NamedConfigFile("/other", environment), "/other");
  EXPECT_EQ(NamedConfigFile({}, {}), std::nullopt);
  const auto missing = FindConfigFile({.flags = {}, .config = "/no/file"}, environment);
  ASSERT_FALSE(missing);
  EXPECT_EQ(ToString(missing.error()), "/no/file: cannot read: No such file or directory");
  for (const std::string none : {"none", ""}) {
    EXPECT_EQ(*FindConfigFile({.flags = {}, .config = none}, environment), std::nullopt);
    EXPECT_EQ(*FindConfigFile({}, {{"PENSTOCK_CONFIG", none}}), std::nullopt);
  }
}

TEST_F(ConfigFiles, TheFileOfTheSystemIsNotReadBesideADirectory) {
  EXPECT_EQ(*FindConfigFile({.flags = Flags({"/srv"}), .config = {}}, {}), std::nullopt);
  EXPECT_EQ(*FindConfigFile({.flags = Flags({"--export=/a=/a"}), .config = {}}, {}), std::nullopt);
  const auto named = FindConfigFile({.flags = Flags({"/srv"}), .config = name_}, {});
  ASSERT_TRUE(named && *named);
  EXPECT_EQ(Configure(Flags({"/srv"}), {}, *named)->options.workers, 3u);
}

}  // namespace
}  // namespace penstock::cli
