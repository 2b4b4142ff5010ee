#include "cli/client_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/client_runtime.h"

namespace penstock::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// "name=value source" of each option.
std::vector<std::string> OptionsIn(const std::string& text, const std::string& host) {
  const auto config = ClientConfig::Parse({.name = "c.toml", .text = text});
  if (!config) return {ToString(config.error().front())};
  std::vector<std::string> shown;
  for (const client::UrlOption& each : config->OptionsFor(host)) {
    shown.push_back(each.name + (each.value ? "=" + *each.value : "") + " " + each.source);
  }
  return shown;
}

std::vector<std::string> MistakesIn(const std::string& text) {
  const auto config = ClientConfig::Parse({.name = "c.toml", .text = text});
  std::vector<std::string> shown;
  if (config) return shown;
  for (const Finding& each : config.error()) shown.push_back(ToString(each));
  return shown;
}

constexpr char kText[] = R"([defaults]
vers = "4.2"
timeo = 50
soft = true
noac = false

[host."*.example.org"]
sec = "krb5p"

[host.FAST]
proto = "rdma"
rsize = 65536
)";

TEST(ClientConfig, TheTablesOfMatchingHostsFollowTheDefaults) {
  EXPECT_THAT(OptionsIn(kText, "other"), ElementsAre("vers=4.2 c.toml:2", "timeo=50 c.toml:3", "soft c.toml:4"));
  EXPECT_THAT(OptionsIn(kText, "a.example.org"),
              ElementsAre("vers=4.2 c.toml:2", "timeo=50 c.toml:3", "soft c.toml:4", "sec=krb5p c.toml:8"));
  EXPECT_THAT(OptionsIn("[host.FAST]\nproto = \"rdma\"\n", "fast"), ElementsAre("proto=rdma c.toml:2"));
  EXPECT_THAT(OptionsIn("", "fast"), IsEmpty());
  EXPECT_THAT(OptionsIn("defaults.vers = \"3\"\nhost.\"a\".ro = true\n", "a"),
              ElementsAre("vers=3 c.toml:1", "ro c.toml:2"));
}

TEST(ClientConfig, NamesEachMistakeWithItsLine) {
  EXPECT_THAT(MistakesIn("[defaults]\nrsise = 5\nvers = \"2\"\nsoft = 1\ntimeo = [1]\n[hosts.x]\nvers = \"3\"\n"),
              ElementsAre("c.toml:2: unknown option 'rsise' (is rsize meant?)",
                          "c.toml:3: vers must be 3, 4.0, 4.1, 4.2 or 4.1-sess01",
                          "c.toml:4: soft must be true or false", "c.toml:5: timeo must have one value",
                          "c.toml:6: unknown table hosts: write [defaults] or [host.\"NAME\"]"));
  EXPECT_THAT(MistakesIn("[host]\nvers = \"3\"\n"), ElementsAre("c.toml:2: host.vers is not an option of URLs"));
  EXPECT_THAT(MistakesIn("[defaults\n"), ElementsAre(HasSubstr("c.toml:1: ")));
}

class ConfigFileTest : public testing::Test {
 protected:
  ConfigFileTest() {
    char name[] = "/tmp/penstock-config-XXXXXX";
    folder_ = ::mkdtemp(name);
    ::setenv("XDG_CONFIG_HOME", folder_.c_str(), 1);
    ::unsetenv("PENSTOCK_CLIENT_CONFIG");
  }
  ~ConfigFileTest() override {
    ::unsetenv("XDG_CONFIG_HOME");
    ::unsetenv("PENSTOCK_CLIENT_CONFIG");
    ::unsetenv("PENSTOCK_OPTIONS");
    std::filesystem::remove_all(folder_);
  }
  std::string Write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(folder_ + "/penstock");
    std::ofstream(folder_ + "/penstock/" + name) << text;
    return folder_ + "/penstock/" + name;
  }

  std::string folder_;
};

TEST_F(ConfigFileTest, FlagsReplaceTheUrlTheUrlTheEnvironmentAndThisTheFile) {
  Write("config.toml",
        "[defaults]\ntimeo = 1\nrsize = 4096\nwsize = 4096\nretrans = 1\nnconnect = 2\n"
        "[host.h]\ntimeo = 2\nrsize = 8192\nwsize = 8192\nretrans = 2\n");
  ::setenv("PENSTOCK_OPTIONS", "retrans=3,wsize=16384,rsize=16384", 1);
  AccessOptions options;
  options.options = {"rsize=65536"};
  const auto url = ParseUrl("nfs://h/?wsize=32768&rsize=32768", options);
  ASSERT_TRUE(url) << url.error().message;
  EXPECT_EQ(url->read_size, 65536u);
  EXPECT_EQ(url->write_size, 32768u);
  EXPECT_EQ(url->recovery.retrans, 3u);
  EXPECT_EQ(url->recovery.timeo, 2u);
  EXPECT_EQ(url->nconnect, 2u);
  EXPECT_EQ(ParseUrl("nfs://other/", {})->recovery.timeo, 1u);
}

TEST_F(ConfigFileTest, TheVariableNamesAnotherFileOrNone) {
  Write("config.toml", "[defaults]\nro = true\n");
  const std::string other = Write("other.toml", "[defaults]\nrsize = 8192\n");
  EXPECT_TRUE(ParseUrl("nfs://h/", {})->read_only);
  EXPECT_FALSE(ParseUrl("nfs://h/?rw", {})->read_only);
  ::setenv("PENSTOCK_CLIENT_CONFIG", other.c_str(), 1);
  EXPECT_EQ(ParseUrl("nfs://h/", {})->read_size, 8192u);
  EXPECT_FALSE(ParseUrl("nfs://h/", {})->read_only);
  ::setenv("PENSTOCK_CLIENT_CONFIG", "none", 1);
  EXPECT_FALSE(ParseUrl("nfs://h/", {})->read_only);
  ::setenv("PENSTOCK_CLIENT_CONFIG", "/no/such/file", 1);
  EXPECT_THAT(ParseUrl("nfs://h/", {}).error().message, HasSubstr("/no/such/file: "));
}

TEST_F(ConfigFileTest, AMistakeOfTheFileIsAMistakeOfTheCommand) {
  const std::string file = Write("config.toml", "[defaults]\nsotf = true\nvers = 9\n");
  EXPECT_EQ(ParseUrl("nfs://h/", {}).error().message, file + ":2: unknown option 'sotf' (is soft meant?) (and 1 more)");
}

}  // namespace
}  // namespace penstock::cli
