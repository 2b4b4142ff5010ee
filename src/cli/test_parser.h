// For tests of command-line options: parses arguments into a struct of options.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace penstock::cli {

template <class Options>
struct Parsed {
  int code = 0;         // the exit code of the program; 0 if the arguments are valid
  std::string message;  // of the error, for the user
  Options options;
};

// Parses the arguments of a command whose options `add(command, options)` registers.
template <class Result, class Options>
Parsed<Options> ParseWith(Result (*add)(CLI::App&, Options&), std::vector<std::string> arguments) {
  Parsed<Options> parsed;
  CLI::App command;
  add(command, parsed.options);
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
    command.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    std::ostringstream message;
    parsed.code = command.exit(error, message, message);
    parsed.message = std::move(message).str();
  }
  return parsed;
}

}  // namespace penstock::cli
