// penstock completion: prints the completion of a shell, or the command line as data.
#include "cli/completion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/output.h"

namespace penstock::cli {
namespace {

enum class Completes : uint8_t { kNothing, kChoices, kFiles, kFolders, kUrls, kFilesAndUrls };

// Positional arguments are known by their names, values of options by their kinds.
Completes CompletesTo(const OptionFacts& option) {
  if (!option.choices.empty()) return Completes::kChoices;
  if (option.positional) {
    const std::string& name = option.names.front();
    if (name == "URL") return Completes::kUrls;
    if (name == "FROM" || name == "TO") return Completes::kFilesAndUrls;
    if (name == "FILE") return Completes::kFiles;
    return name == "DIR" ? Completes::kFolders : Completes::kNothing;
  }
  if (option.value.starts_with("FILE")) return Completes::kFiles;
  return option.value.starts_with("DIRECTORY") ? Completes::kFolders : Completes::kNothing;
}

// The beginning of the description, on one line.
std::string Summary(const std::string& description) {
  std::string line = description.substr(0, description.find_first_of("\n;"));
  if (const size_t sentence = line.find(". "); sentence != line.npos) line.resize(sentence);
  while (line.ends_with('.') || line.ends_with(':') || line.ends_with(',')) line.pop_back();
  return line;
}

// A text in single quotes for a shell. `escaped` are the characters that get a backslash.
std::string InQuotes(std::string_view text, std::string_view escaped, std::string_view quote) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += quote;
      continue;
    }
    if (escaped.contains(c)) quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}
std::string ForZsh(std::string_view text, std::string_view escaped) { return InQuotes(text, escaped, R"('\'')"); }
std::string ForFish(std::string_view text) { return InQuotes(text, "\\", R"(\')"); }

std::vector<std::string> NamesOf(const std::vector<OptionFacts>& options) {
  std::vector<std::string> names;
  for (const OptionFacts& option : options) {
    if (!option.positional) names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

// ---- bash ----

std::string BashAction(const OptionFacts& option) {
  switch (CompletesTo(option)) {
    case Completes::kChoices:
      return fmt::format("_penstock_words '{}'", fmt::join(option.choices, " "));
    case Completes::kFiles:
      return "_penstock_files -f";
    case Completes::kFolders:
      return "_penstock_files -d";
    case Completes::kUrls:
      return "_penstock_url";
    case Completes::kFilesAndUrls:
      return "_penstock_files -f; _penstock_url";
    case Completes::kNothing:
      break;
  }
  return ":";
}

// bash splits words at '=' and ':' as well (COMP_WORDBREAKS).
constexpr std::string_view kBashFrame = R"(# bash completion of penstock
_penstock_words() {{ COMPREPLY+=($(compgen -W "$1" -- "$cur")); }}
_penstock_files() {{
  local IFS=$'\n'
  COMPREPLY+=($(compgen "$1" -- "$cur"))
  compopt -o filenames 2>/dev/null
}}
_penstock_url() {{
  [[ $cur && nfs:// == "$cur"* ]] || return
  COMPREPLY+=(nfs://)
  compopt -o nospace 2>/dev/null
}}
_penstock() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} command='' i
  COMPREPLY=()
  if [[ $cur == '=' ]]; then
    cur=''
  elif [[ $previous == '=' ]]; then
    previous=${{COMP_WORDS[COMP_CWORD - 2]}}
  elif [[ $previous == ':' || $cur == ':' ]]; then
    return  # inside a URL
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${{COMP_WORDS[i]}} in
      {0}) command=${{COMP_WORDS[i]}}; break ;;
    esac
  done
  case "$command $previous" in
{1}  esac
  if [[ $cur == -* ]]; then
    case $command in
{2}    esac
    return
  fi
  case $command in
{3}  esac
}}
complete -F _penstock penstock
)";

// ---- zsh ----

std::string ZshAction(const OptionFacts& option) {
  switch (CompletesTo(option)) {
    case Completes::kChoices:
      return fmt::format("({})", fmt::join(option.choices, " "));
    case Completes::kFiles:
    case Completes::kFilesAndUrls:
      return "_files";
    case Completes::kFolders:
      return "_files -/";
    case Completes::kUrls:
    case Completes::kNothing:
      break;
  }
  return " ";
}

std::string ZshSpecification(const OptionFacts& option) {
  constexpr std::string_view kSpecial = "[]:\\";
  const std::string summary = ForZsh(Summary(option.description), kSpecial);
  const std::string about = summary.substr(1, summary.size() - 2);
  if (option.positional) {
    return fmt::format("      '{}:{}:{}'", option.repeats ? "*" : "", option.names.front(), ZshAction(option));
  }
  std::vector<std::string> specifications;
  for (const std::string& name : option.names) {
    const std::string_view star = option.repeats || option.names.size() > 1 ? "*" : "";
    const std::string_view equals = option.value.empty() ? "" : name.starts_with("--") ? "=" : "+";
    const std::string value = option.value.empty() ? "" : fmt::format(":{}:{}", "value", ZshAction(option));
    specifications.push_back(fmt::format("      '{}{}{}[{}]{}'", star, name, equals, about, value));
  }
  return fmt::format("{}", fmt::join(specifications, " \\\n"));
}

// ---- fish ----

std::string FishOptions(const std::string& condition, const OptionFacts& option) {
  std::string line = "complete -c penstock" + condition;
  if (!option.positional) {
    for (const std::string& name : option.names) {
      line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
  }
  switch (CompletesTo(option)) {
    case Completes::kChoices:
      line += fmt::format("{} -a '{}'", option.positional ? " -f" : " -x", fmt::join(option.choices, " "));
      break;
    case Completes::kFiles:
    case Completes::kFilesAndUrls:
      line += option.positional ? " -F" : " -r -F";
      break;
    case Completes::kFolders:
      line += fmt::format("{} -a '(__fish_complete_directories)'", option.positional ? " -f" : " -x");
      break;
    case Completes::kUrls:
      line += " -f";
      break;
    case Completes::kNothing:
      line += option.positional ? " -f" : option.value.empty() ? "" : " -x";
      break;
  }
  if (!option.positional) line += " -d " + ForFish(Summary(option.description));
  return line + '\n';
}

// ---- the command ----

struct CompletionOptions {
  std::string what;
};

int PrintCompletion(const CLI::App& program, const CompletionOptions& options) {
  const std::vector<CommandFacts> commands = FactsOf(program);
  return PrintOutput(options.what == "bash"   ? BashCompletion(commands)
                     : options.what == "zsh"  ? ZshCompletion(commands)
                     : options.what == "fish" ? FishCompletion(commands)
                                              : JsonOf(commands));
}

}  // namespace

std::string BashCompletion(const std::vector<CommandFacts>& commands) {
  std::vector<std::string> names;
  std::string values;
  std::string options;
  std::string arguments;
  for (const CommandFacts& command : commands) {
    if (!command.name.empty()) names.push_back(command.name);
    std::vector<OptionFacts> all = command.options;
    // The program's options may stand behind a command.
    if (!command.name.empty()) all.insert(all.end(), commands.front().options.begin(), commands.front().options.end());
    options += fmt::format("      '{}') _penstock_words '{}' ;;\n", command.name, fmt::join(NamesOf(all), " "));
    std::string positional;
    for (const OptionFacts& option : command.options) {
      if (option.positional) {
        const std::string action = BashAction(option);
        if (action != ":" && !positional.contains(action)) positional += (positional.empty() ? "" : "; ") + action;
      } else if (!option.value.empty()) {
        std::vector<std::string> patterns;
        for (const std::string& name : option.names) patterns.push_back(fmt::format("'{} {}'", command.name, name));
        values += fmt::format("    {}) {}; return ;;\n", fmt::join(patterns, " | "), BashAction(option));
      }
    }
    if (!positional.empty()) arguments += fmt::format("    '{}') {} ;;\n", command.name, positional);
  }
  arguments += fmt::format("    '') _penstock_words '{}' ;;\n", fmt::join(names, " "));
  return fmt::format(kBashFrame, fmt::join(names, " | "), values, options, arguments);
}

std::string ZshCompletion(const std::vector<CommandFacts>& commands) {
  std::string names;
  std::string cases;
  std::string of_program;
  for (const OptionFacts& option : commands.front().options) of_program += ZshSpecification(option) + " \\\n";
  for (const CommandFacts& command : commands) {
    if (command.name.empty()) continue;
    names += "    " + ForZsh(command.name + ":" + Summary(command.description), "") + "\n";
    std::string specifications = of_program;
    for (const OptionFacts& option : command.options) specifications += ZshSpecification(option) + " \\\n";
    cases += fmt::format("    {})\n      _arguments -s \\\n{}      && return 0 ;;\n", command.name, specifications);
  }
  return fmt::format(R"(#compdef penstock
_penstock() {{
  local curcontext=$curcontext state line
  typeset -A opt_args
  local -a commands=(
{}  )
  _arguments -C -s \
{}      '1:command:->command' '*::argument:->argument' && return 0
  if [[ $state == command ]]; then
    _describe command commands
    return
  fi
  case $line[1] in
{}  esac
  return 1
}}
compdef _penstock penstock
)",
                     names, of_program, cases);
}

std::string FishCompletion(const std::vector<CommandFacts>& commands) {
  std::string lines = "# fish completion of penstock\n";
  for (const OptionFacts& option : commands.front().options) lines += FishOptions("", option);
  for (const CommandFacts& command : commands) {
    if (command.name.empty()) continue;
    lines += fmt::format("complete -c penstock -n __fish_use_subcommand -f -a {} -d {}\n", command.name,
                         ForFish(Summary(command.description)));
    const std::string condition = fmt::format(" -n '__fish_seen_subcommand_from {}'", command.name);
    for (const OptionFacts& option : command.options) lines += FishOptions(condition, option);
  }
  return lines;
}

Command AddCompletion(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("completion", "Print the completion of command lines for a shell");
  const auto options = std::make_shared<CompletionOptions>();
  command
      ->add_option("SHELL", options->what,
                   "The shell; json: print all commands, options and parameters of URLs as JSON instead, for programs")
      ->check(CLI::IsMember({"bash", "zsh", "fish", "json"}))
      ->required();
  SetFooter(*command, "",
            {"# Complete command lines of bash, where no package has installed the completion",
             "penstock completion bash > ~/.local/share/bash-completion/completions/penstock",
             "# List the names of all commands", "penstock completion json | jq -r '.commands[].name'"});
  return {command, [&program, options] { return PrintCompletion(program, *options); }};
}

}  // namespace penstock::cli
