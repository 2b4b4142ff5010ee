#include "cli/common_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/test_parser.h"

namespace penstock::cli {
namespace {

using ::testing::HasSubstr;

// The exit code of a value that a check of CLI11 refuses.
constexpr int kRefused = static_cast<int>(CLI::ExitCodes::ValidationError);

// Parses the arguments of a command that has the options of a client.
Parsed<ClientOptions> Parse(std::vector<std::string> arguments) {
  return ParseWith(&AddClientOptions, std::move(arguments));
}

TEST(CommonOptions, LeavesTheVersionToTheUrlAndTheKindOfRdmaToTheProgramByDefault) {
  const auto parsed = Parse({});
  EXPECT_EQ(parsed.code, 0) << parsed.message;
  EXPECT_EQ(parsed.options.vers, "");
  EXPECT_EQ(parsed.options.trace, "");
  EXPECT_EQ(ChoiceOf(parsed.options.rdma).kind, rdma::Kind::kAuto);
  EXPECT_EQ(ChoiceOf(parsed.options.rdma).device, "");
}

TEST(CommonOptions, EachOptionFillsItsField) {
  const auto parsed = Parse({"--vers=4.2", "--trace", "a file", "--rdma=verbs", "--rdma-device=mlx5_0"});
  EXPECT_EQ(parsed.code, 0) << parsed.message;
  EXPECT_EQ(parsed.options.vers, "4.2");
  EXPECT_EQ(parsed.options.trace, "a file");
  EXPECT_EQ(ChoiceOf(parsed.options.rdma).kind, rdma::Kind::kVerbs);
  EXPECT_EQ(ChoiceOf(parsed.options.rdma).device, "mlx5_0");
}

TEST(CommonOptions, TheEnvironmentNamesAKeytabUnlessTheCommandLineDoes) {
  ::setenv("PENSTOCK_KEYTAB", "a.keytab", 1);
  const auto plain = Parse({});
  const auto replaced = Parse({"--keytab=other.keytab"});
  ::unsetenv("PENSTOCK_KEYTAB");
  EXPECT_EQ(plain.options.kerberos.keytab, "a.keytab");
  EXPECT_EQ(replaced.options.kerberos.keytab, "other.keytab");
}

TEST(CommonOptions, AcceptsEachSupportedVersionOnly) {
  for (const char* const version : {"3", "4", "4.0", "4.1", "4.2", "4.1-sess01"}) {
    const auto parsed = Parse({"--vers", version});
    EXPECT_EQ(parsed.code, 0) << parsed.message;
    EXPECT_EQ(parsed.options.vers, version);
  }
  for (const char* const version : {"2", "4.3", "5", "v3", "3.0", "four"}) {
    const auto parsed = Parse({"--vers", version});
    EXPECT_EQ(parsed.code, kRefused) << version;
    EXPECT_THAT(parsed.message, HasSubstr(std::string("--vers: ") + version + " not in {3,4,4.0,4.1,4.2,4.1-sess01}"));
  }
}

TEST(CommonOptions, AcceptsTheThreeWordsOfRdmaOnly) {
  const auto iwarp = Parse({"--rdma=iwarp"});
  EXPECT_EQ(iwarp.code, 0) << iwarp.message;
  EXPECT_EQ(ChoiceOf(iwarp.options.rdma).kind, rdma::Kind::kIwarp);
  for (const char* const word : {"infiniband", "Verbs", "autoo"}) {
    const auto parsed = Parse({"--rdma", word});
    EXPECT_EQ(parsed.code, kRefused) << word;
    EXPECT_THAT(parsed.message, HasSubstr(std::string("--rdma: ") + word + " not in {auto,verbs,iwarp}"));
  }
}

TEST(CommonOptions, RefusesAnOptionThatIsGivenTwice) {
  const auto parsed = Parse({"--vers=3", "--vers=4.1"});
  EXPECT_EQ(parsed.code, static_cast<int>(CLI::ExitCodes::ArgumentMismatch));
  EXPECT_THAT(parsed.message, HasSubstr("--vers"));
}

TEST(CommonOptions, RefusesAnOptionWithoutItsValue) {
  for (const std::string option : {"--vers", "--trace", "--rdma", "--rdma-device"}) {
    const auto parsed = Parse({option});
    EXPECT_EQ(parsed.code, static_cast<int>(CLI::ExitCodes::ArgumentMismatch)) << option;
    EXPECT_THAT(parsed.message, HasSubstr(option + ": 1 required"));
  }
}

}  // namespace
}  // namespace penstock::cli
