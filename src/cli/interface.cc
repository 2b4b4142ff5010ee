#include "cli/interface.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ranges>

#include "base/json.h"
#include "client/url_parameters.h"

namespace penstock::cli {
namespace {

constexpr std::string_view kExamples = "Examples:\n";
constexpr std::string_view kIndent = "  ";

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (const auto part : std::views::split(text, separator)) parts.emplace_back(part.begin(), part.end());
  return parts;
}

// CLI11 appends a set of values to the kind of the value: "TEXT:{off,auto}".
void SetValue(OptionFacts& facts, std::string_view type) {
  const size_t brace = type.find(":{");
  if (brace != type.npos && type.ends_with('}')) {
    facts.choices = Split(type.substr(brace + 2, type.size() - brace - 3), ',');
    type = type.substr(0, brace);
  }
  facts.value = type;
  if (type == "BOOLEAN") facts.choices = {"on", "off"};
}

OptionFacts FactsOf(const CLI::Option& option) {
  OptionFacts facts;
  facts.positional = option.get_positional();
  if (facts.positional) {
    facts.names.push_back(option.get_name());
  } else {
    for (const std::string& name : option.get_snames()) facts.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) facts.names.push_back("--" + name);
  }
  facts.required = option.get_required();
  if (option.get_items_expected_max() > 0) SetValue(facts, option.get_type_name());
  facts.repeats = option.get_items_expected_max() > 1;
  facts.default_value = option.get_default_str();
  facts.variable = option.get_envname();
  facts.description = option.get_description();
  return facts;
}

// Takes the notes and the examples apart that SetFooter() has put together.
void SetNotesAndExamples(CommandFacts& facts, std::string_view footer) {
  const size_t at = footer.find(kExamples);
  facts.notes = footer.substr(0, at);
  while (facts.notes.ends_with('\n')) facts.notes.pop_back();
  if (at == footer.npos) return;
  for (const std::string& line : Split(footer.substr(at + kExamples.size()), '\n')) {
    if (line.starts_with(kIndent)) facts.examples.push_back(line.substr(kIndent.size()));
  }
}

CommandFacts FactsOfCommand(const CLI::App& command) {
  CommandFacts facts;
  facts.name = command.get_parent() ? command.get_name() : "";
  facts.description = command.get_description();
  SetNotesAndExamples(facts, command.get_footer());
  for (const CLI::Option* const option : command.get_options()) {
    if (!option->get_group().empty()) facts.options.push_back(FactsOf(*option));
  }
  return facts;
}

// ---- JSON ----

std::string Quoted(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += fmt::format("{}{}", list.empty() ? "" : ", ", QuoteJson(text));
  return fmt::format("[{}]", list);
}

std::string JsonOf(const OptionFacts& facts) {
  return fmt::format(
      R"({{"names": {}, "positional": {}, "required": {}, "repeats": {}, "value": {}, "choices": {}, "default": {}, )"
      R"("variable": {}, "description": {}}})",
      Quoted(facts.names), facts.positional, facts.required, facts.repeats, QuoteJson(facts.value),
      Quoted(facts.choices), QuoteJson(facts.default_value), QuoteJson(facts.variable), QuoteJson(facts.description));
}

// The elements of a list, each on a line of its own.
std::string Lines(const std::vector<std::string>& elements) {
  std::string lines;
  for (const std::string& element : elements) lines += fmt::format("{}\n    {}", lines.empty() ? "" : ",", element);
  return lines;
}

}  // namespace

std::vector<CommandFacts> FactsOf(const CLI::App& program) {
  std::vector<CommandFacts> commands = {FactsOfCommand(program)};
  for (const CLI::App* const command : program.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) commands.push_back(FactsOfCommand(*command));
  }
  return commands;
}

void SetFooter(CLI::App& command, std::string_view notes, const std::vector<std::string>& examples) {
  std::string footer(notes);
  if (!footer.empty()) footer += "\n\n";
  footer += kExamples;
  for (const std::string& line : examples) footer += fmt::format("{}{}\n", kIndent, line);
  footer.pop_back();
  command.footer(footer);
}

std::string JsonOf(const std::vector<CommandFacts>& commands) {
  std::vector<std::string> lines;
  for (const CommandFacts& command : commands) {
    std::vector<std::string> options;
    for (const OptionFacts& option : command.options) options.push_back(JsonOf(option));
    lines.push_back(fmt::format(R"({{"name": {}, "description": {}, "notes": {}, "examples": {}, "options": [{}]}})",
                                QuoteJson(command.name), QuoteJson(command.description), QuoteJson(command.notes),
                                Quoted(command.examples), Lines(options)));
  }
  std::vector<std::string> parameters;
  for (const client::UrlParameter& parameter : client::UrlParameters()) {
    parameters.push_back(fmt::format(R"({{"name": {}, "values": {}, "description": {}}})", QuoteJson(parameter.name),
                                     QuoteJson(parameter.values), QuoteJson(parameter.description)));
  }
  return fmt::format("{{\n  \"commands\": [{}\n  ],\n  \"url_parameters\": [{}\n  ]\n}}\n", Lines(lines),
                     Lines(parameters));
}

}  // namespace penstock::cli
