#include "cli/interface.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <set>
#include <string>
#include <vector>

#include "cli/parser.h"

namespace penstock::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The words of a command line, without what a shell would do after it. Throws on an open quote.
std::vector<std::string> WordsOf(const std::string& line) {
  return CLI::detail::split_up(line.substr(0, line.find_first_of("|>")));
}

TEST(FactsTest, DescribeOptionsOfEveryKind) {
  CLI::App program("the program");
  CLI::App* const command = program.add_subcommand("act", "Do it");
  std::string text;
  std::vector<std::string> texts;
  unsigned number = 7;
  bool flag = false;
  command->add_option("PLACE", texts, "Where")->required();
  command->add_option("-m,--mode", text, "How")->check(CLI::IsMember({"fast", "safe"}))->envname("MODE");
  command->add_option("--count", number, "How often")->capture_default_str();
  command->add_flag("--loud", flag, "Speak");
  command->add_option("--secret", text)->group("");
  SetFooter(*command, "A note.", {"# Act here", "program act here"});

  const std::vector<CommandFacts> commands = FactsOf(program);
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_EQ(commands[0].name, "");
  const CommandFacts& act = commands[1];
  EXPECT_EQ(act.name, "act");
  EXPECT_EQ(act.description, "Do it");
  EXPECT_EQ(act.notes, "A note.");
  EXPECT_THAT(act.examples, ElementsAre("# Act here", "program act here"));
  ASSERT_EQ(act.options.size(), 5u);  // --help is the first; the hidden one is left out
  EXPECT_THAT(act.options[0].names, ElementsAre("-h", "--help"));
  EXPECT_THAT(act.options[1].names, ElementsAre("PLACE"));
  EXPECT_TRUE(act.options[1].positional && act.options[1].required && act.options[1].repeats);
  EXPECT_THAT(act.options[2].names, ElementsAre("-m", "--mode"));
  EXPECT_EQ(act.options[2].value, "TEXT");
  EXPECT_THAT(act.options[2].choices, testing::UnorderedElementsAre("fast", "safe"));
  EXPECT_EQ(act.options[2].variable, "MODE");
  EXPECT_EQ(act.options[3].value, "UINT");
  EXPECT_EQ(act.options[3].default_value, "7");
  EXPECT_EQ(act.options[4].value, "");
  EXPECT_FALSE(act.options[4].repeats || act.options[4].positional || act.options[4].required);
}

TEST(FactsTest, JsonEscapesTexts) {
  CommandFacts facts;
  facts.description = "a \"quoted\\ text\non two lines";
  EXPECT_THAT(JsonOf({facts}), HasSubstr(R"("description": "a \"quoted\\ text\non two lines")"));
}

TEST(InterfaceTest, EachOptionAndArgumentHasADescription) {
  const Parser parser = MakeParser("0");
  for (const CommandFacts& command : FactsOf(*parser.program)) {
    EXPECT_THAT(command.description, testing::Not(IsEmpty())) << command.name;
    for (const OptionFacts& option : command.options) {
      EXPECT_THAT(option.description, testing::Not(IsEmpty())) << command.name << " " << option.names.front();
    }
  }
}

TEST(InterfaceTest, EachCommandHasTwoOrThreeExamplesOfItsOwn) {
  const Parser parser = MakeParser("0");
  std::set<std::string> seen;
  for (const CommandFacts& command : FactsOf(*parser.program)) {
    ASSERT_EQ(command.examples.size() % 2, 0u) << command.name;
    EXPECT_GE(command.examples.size(), 4u) << command.name;
    EXPECT_LE(command.examples.size(), 6u) << command.name;
    for (size_t i = 0; i < command.examples.size(); i += 2) {
      EXPECT_TRUE(command.examples[i].starts_with("# ")) << command.examples[i];
      EXPECT_TRUE(seen.insert(command.examples[i + 1]).second) << command.examples[i + 1];
    }
  }
}

TEST(InterfaceTest, TheParserAcceptsEachExample) {
  for (const CommandFacts& command : FactsOf(*MakeParser("0").program)) {
    for (size_t i = 1; i < command.examples.size(); i += 2) {
      const std::string& example = command.examples[i];
      std::vector<std::string> words = WordsOf(example);
      ASSERT_GE(words.size(), 2u) << example;
      EXPECT_EQ(words[0], "penstock") << example;
      words.erase(words.begin());
      std::ranges::reverse(words);  // CLI11 takes them from the back
      const Parser parser = MakeParser("0");
      EXPECT_NO_THROW(parser.program->parse(std::move(words))) << example;
      ASSERT_EQ(parser.program->get_subcommands().size(), 1u) << example;
      if (!command.name.empty()) EXPECT_EQ(parser.program->get_subcommands()[0]->get_name(), command.name) << example;
    }
  }
}

// A command line without quotes would end at the first '&' of a URL.
TEST(InterfaceTest, ExamplesQuoteUrlsWithParameters) {
  for (const CommandFacts& command : FactsOf(*MakeParser("0").program)) {
    for (const std::string& example : command.examples) {
      for (size_t at = example.find("nfs://"); at != example.npos; at = example.find("nfs://", at + 1)) {
        const std::string url = example.substr(at, example.find_first_of(" '", at) - at);
        if (url.contains('?')) EXPECT_EQ(example[at - 1], '\'') << example;
      }
    }
  }
}

}  // namespace
}  // namespace penstock::cli
