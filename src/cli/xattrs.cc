// penstock getfattr and setfattr: extended attributes of files on a server (RFC 8276).
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/interface.h"
#include "cli/mounts.h"
#include "cli/output.h"
#include "cli/printable.h"
#include "cli/xattr_text.h"
#include "client/acl_values.h"

namespace penstock::cli {
namespace {

using client::Result;

using client::kUserPrefix;

// ---- getfattr ----

struct GetXattrOptions : ClientOptions {
  std::vector<std::string> urls;
  std::string name;
  bool dump = false;
  bool only_values = false;
  bool no_dereference = false;
  std::string encoding;
};

Task<Result<void>> GetXattrsOf(const Mounted& at, const GetXattrOptions& options) {
  PENSTOCK_CO_TRY(const client::Node node, co_await at.Resolve(!options.no_dereference));
  std::vector<std::string> names;
  if (options.name.empty()) {
    PENSTOCK_CO_TRY(names, co_await at.mount->ListXattrs(node.handle, at.name));
    std::ranges::sort(names);
  } else {
    names.push_back(options.name.substr(kUserPrefix.size()));
  }
  if (names.empty()) co_return Result<void>();
  const bool printable = OutputIsTerminal();
  std::string text;
  if (!options.only_values) text = fmt::format("# file: {}\n", printable ? Printable(at.server_path) : at.server_path);
  for (const std::string& name : names) {
    const std::string shown = fmt::format("{}{}", kUserPrefix, printable ? Printable(name) : name);
    if (!options.dump && options.name.empty()) {
      text += shown + "\n";
      continue;
    }
    const auto value = co_await at.mount->GetXattr(node.handle, at.name, name);
    // Another client may remove it while they are listed.
    if (!value && value.error().number == ENODATA && options.name.empty()) continue;
    if (!value && value.error().number == ENODATA) {
      const std::string why = fmt::format("{}: no attribute {}", at.name, shown);
      co_return std::unexpected(client::Error{why, value.error().status, ENODATA});
    }
    if (!value) co_return std::unexpected(value.error());
    if (options.only_values) {
      text += AsText(*value);
    } else {
      text += fmt::format("{}={}\n", shown, XattrText(*value, options.encoding));
    }
  }
  if (!options.only_values) text += "\n";
  co_return WriteOutput(text);
}

int WrongXattrName(const std::string& name) {
  return PrintUsageError(name + ": the name of an attribute begins with user.");
}

bool IsXattrName(const std::string& name) { return name.starts_with(kUserPrefix) && name.size() > kUserPrefix.size(); }

int GetXattrs(const GetXattrOptions& options) {
  if (!options.name.empty() && !IsXattrName(options.name)) return WrongXattrName(options.name);
  return RunOnMounts(options.urls, options,
                     [&](ClientRuntime&, const Mounted& at) { return GetXattrsOf(at, options); });
}

// ---- setfattr ----

struct SetXattrOptions : ClientOptions {
  std::vector<std::string> urls;
  std::string name;
  std::string value;
  std::string remove;
  bool no_dereference = false;
};

Task<Result<void>> SetXattrOf(const Mounted& at, const SetXattrOptions& options, const std::string& value) {
  PENSTOCK_CO_TRY(const client::Node node, co_await at.Resolve(!options.no_dereference));
  if (options.remove.empty()) {
    const std::string name = options.name.substr(kUserPrefix.size());
    co_return co_await at.mount->SetXattr(node.handle, at.name, name, AsBytes(value), client::XattrMode::kEither);
  }
  const std::string name = options.remove.substr(kUserPrefix.size());
  const auto removed = co_await at.mount->RemoveXattr(node.handle, at.name, name);
  if (removed || removed.error().number != ENODATA) co_return removed;
  const std::string why = fmt::format("{}: no attribute {}", at.name, options.remove);
  co_return std::unexpected(client::Error{why, removed.error().status, ENODATA});
}

int SetXattrs(const SetXattrOptions& options) {
  if (options.name.empty() == options.remove.empty()) return PrintUsageError("setfattr: one of -n and -x is required");
  const std::string& name = options.name.empty() ? options.remove : options.name;
  if (!IsXattrName(name)) return WrongXattrName(name);
  const auto value = ParseXattr(options.value);
  if (!value) return PrintUsageError(options.value + ": neither a text, 0x and hexadecimal digits, nor 0s and base64");
  return RunOnMounts(options.urls, options,
                     [&](ClientRuntime&, const Mounted& at) { return SetXattrOf(at, options, *value); });
}

}  // namespace

Command AddGetXattr(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("getfattr", "Show extended attributes of files on an NFS server");
  const auto options = std::make_shared<GetXattrOptions>();
  command->set_help_flag("--help", "Print this help message and exit");
  command->add_option("URL", options->urls, "Files or directories")->required();
  CLI::Option* const name =
      command->add_option("-n,--name", options->name, "Show the value of this attribute, user.NAME");
  command->add_flag("-d,--dump", options->dump, "Show the values of all attributes")->excludes(name);
  command
      ->add_option("-e,--encoding", options->encoding,
                   "How values are shown. The default is text, or base64 for values that are no text")
      ->check(CLI::IsMember({"text", "hex", "base64"}));
  command->add_flag("--only-values", options->only_values, "Print the octets of the values and nothing else");
  command->add_flag("-h,--no-dereference", options->no_dereference, "Show those of a symbolic link itself");
  AddClientOptions(*command, *options);
  SetFooter(*command, "Only version 4.2 has extended attributes.",
            {"# Show all attributes of a file", "penstock getfattr -d nfs://server.example/notes.txt",
             "# Get the value of one", "penstock getfattr --only-values -n user.color nfs://server.example/notes.txt"});
  return {command, [options] { return GetXattrs(*options); }};
}

Command AddSetXattr(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("setfattr", "Set extended attributes of files on an NFS server");
  const auto options = std::make_shared<SetXattrOptions>();
  command->set_help_flag("--help", "Print this help message and exit");
  command->add_option("URL", options->urls, "Files or directories")->required();
  CLI::Option* const name = command->add_option("-n,--name", options->name, "Set this attribute, user.NAME");
  command
      ->add_option("-v,--value", options->value,
                   "The value: a text, also in double quotes, 0x and hexadecimal digits, or 0s and base64. The\n"
                   "default is empty")
      ->needs(name);
  command->add_option("-x,--remove", options->remove, "Remove this attribute")->excludes(name);
  command->add_flag("-h,--no-dereference", options->no_dereference, "Set those of a symbolic link itself");
  AddClientOptions(*command, *options);
  SetFooter(*command, "Only version 4.2 has extended attributes.",
            {"# Set an attribute", "penstock setfattr -n user.color -v blue nfs://server.example/notes.txt",
             "# Remove it", "penstock setfattr -x user.color nfs://server.example/notes.txt"});
  return {command, [options] { return SetXattrs(*options); }};
}

}  // namespace penstock::cli
