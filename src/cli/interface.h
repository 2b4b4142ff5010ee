// The command line of the program as data: commands, options, values, examples. Completions, manual pages and their
// tests read it, so that they agree with the parser.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace penstock::cli {

struct OptionFacts {
  // "-c", "--count"; of an argument without dashes, its name, such as "URL".
  std::vector<std::string> names;
  bool positional = false;
  bool required = false;
  bool repeats = false;
  // The kind of the value in capitals, such as TEXT, FILE or UINT; empty for a flag. Behind it stands what the value
  // must satisfy, such as "UINT:INT in [1 - 64]".
  std::string value;
  std::vector<std::string> choices;  // all values, if they are a fixed set
  std::string default_value;         // empty: none
  std::string variable;              // of the environment; empty: none
  std::string description;
};

struct CommandFacts {
  std::string name;  // empty for the program itself
  std::string description;
  std::string notes;                  // what the help says after the options
  std::vector<std::string> examples;  // command lines, each after a line "# what it does"
  std::vector<OptionFacts> options;   // without the hidden ones
};

// The program first, then its commands in the order of the help.
std::vector<CommandFacts> FactsOf(const CLI::App& program);

// Sets what the help of a command prints after its options: notes, if any, and examples. Each example is a line
// "# what it does", and the line with the command.
void SetFooter(CLI::App& command, std::string_view notes, const std::vector<std::string>& examples);

// The facts and the parameters of URLs, as JSON.
std::string JsonOf(const std::vector<CommandFacts>& commands);

}  // namespace penstock::cli
