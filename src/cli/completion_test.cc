#include "cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/parser.h"

namespace penstock::cli {
namespace {

using ::testing::HasSubstr;

class CompletionTest : public testing::Test {
 protected:
  const Parser parser_ = MakeParser("0");
  const std::vector<CommandFacts> commands_ = FactsOf(*parser_.program);
};

TEST_F(CompletionTest, ZshKnowsEachCommandAndOption) {
  const std::string script = ZshCompletion(commands_);
  for (const CommandFacts& command : commands_) {
    if (!command.name.empty()) EXPECT_THAT(script, HasSubstr("'" + command.name + ":"));
    for (const OptionFacts& option : command.options) {
      for (const std::string& name : option.names) EXPECT_THAT(script, HasSubstr(name));
    }
  }
}

TEST_F(CompletionTest, FishKnowsEachCommandAndOption) {
  const std::string script = FishCompletion(commands_);
  for (const CommandFacts& command : commands_) {
    if (!command.name.empty()) EXPECT_THAT(script, HasSubstr("-a " + command.name + " "));
    for (const OptionFacts& option : command.options) {
      for (const std::string& name : option.names) {
        if (option.positional) continue;
        EXPECT_THAT(script, HasSubstr(name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1)));
      }
    }
  }
}

CommandFacts WithOption(OptionFacts option) {
  CommandFacts command;
  command.name = "act";
  command.options.push_back(std::move(option));
  return command;
}

TEST_F(CompletionTest, DescriptionsAreQuotedForEachShell) {
  OptionFacts option;
  option.names = {"--it"};
  option.description = "it's [a]: b";
  const std::vector<CommandFacts> commands = {{}, WithOption(option)};
  EXPECT_THAT(ZshCompletion(commands), HasSubstr(R"('--it[it'\''s \[a\]\: b]')"));
  EXPECT_THAT(FishCompletion(commands), HasSubstr(R"(-l it -d 'it\'s [a]: b')"));
}

TEST_F(CompletionTest, DescriptionsEndWithTheirFirstSentence) {
  OptionFacts option;
  option.names = {"--it"};
  option.description = "one thing. Two;\nthree";
  EXPECT_THAT(FishCompletion({{}, WithOption(option)}), HasSubstr("-d 'one thing'\n"));
}

}  // namespace
}  // namespace penstock::cli
