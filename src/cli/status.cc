// penstock stat and df: what a server tells of files and of the room in its file systems.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/attributes_json.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/host_owners.h"
#include "cli/interface.h"
#include "cli/list_line.h"
#include "cli/mounts.h"
#include "cli/output.h"
#include "cli/printable.h"
#include "cli/sizes.h"
#include "client/url.h"

namespace penstock::cli {
namespace {

using client::Result;

// ---- stat ----

struct StatOptions : ClientOptions {
  std::vector<std::string> urls;
  OwnerOptions owners;
  bool follow = false;
  bool json = false;
  std::optional<std::string> format;
};

std::string_view LongTypeName(const client::Attributes& a) {
  using enum client::FileType;
  switch (a.type) {
    case kRegular:
      return a.size == 0 ? "regular empty file" : "regular file";
    case kSymlink:
      return "symbolic link";
    case kBlockDevice:
      return "block special file";
    case kCharacterDevice:
      return "character special file";
    default:
      return TypeName(a.type);
  }
}

// What stat prints of one object.
struct Shown {
  std::string name;
  std::string target;  // of a symbolic link
  client::Attributes attributes;
  uint32_t block = 0;  // the size of a READ
};

std::string StatText(const Shown& shown) {
  const client::Attributes& a = shown.attributes;
  std::string text = fmt::format("  File: {}{}{}\n", shown.name, shown.target.empty() ? "" : " -> ", shown.target);
  text += fmt::format("  Size: {:<10}\tBlocks: {:<10} IO Block: {:<6} {}\n", a.size, (a.used + 511) / 512, shown.block,
                      LongTypeName(a));
  text += fmt::format("Device: {:<10x}\tInode: {:<11} Links: {}", a.file_system, a.file_id, a.links);
  using enum client::FileType;
  if (a.type == kBlockDevice || a.type == kCharacterDevice) {
    text += fmt::format("  Device type: {},{}", a.device_major, a.device_minor);
  }
  text += fmt::format("\nAccess: ({:04o}/{})  Owner: {}  Group: {}\n", a.mode, ModeText(a), Printable(a.owner),
                      Printable(a.group));
  return text + fmt::format("Access: {}\nModify: {}\nChange: {}\n", FullTimeText(a.accessed), FullTimeText(a.modified),
                            FullTimeText(a.changed));
}

std::optional<std::string> FieldText(char field, const Shown& shown) {
  const client::Attributes& a = shown.attributes;
  switch (field) {
    case '%':
      return "%";
    case 'n':
      return shown.name;
    case 'N':
      return shown.target.empty() ? shown.name : fmt::format("{} -> {}", shown.name, shown.target);
    case 's':
      return std::to_string(a.size);
    case 'b':
      return std::to_string((a.used + 511) / 512);
    case 'B':
      return "512";
    case 'o':
      return std::to_string(shown.block);
    case 'a':
      return fmt::format("{:o}", a.mode);
    case 'A':
      return ModeText(a);
    case 'F':
      return std::string(LongTypeName(a));
    case 'h':
      return std::to_string(a.links);
    case 'i':
      return std::to_string(a.file_id);
    case 'd':
      return std::to_string(a.file_system);
    case 'U':
      return a.owner;
    case 'G':
      return a.group;
    case 'x':
      return FullTimeText(a.accessed);
    case 'y':
      return FullTimeText(a.modified);
    case 'z':
      return FullTimeText(a.changed);
    case 'X':
      return std::to_string(a.accessed.seconds);
    case 'Y':
      return std::to_string(a.modified.seconds);
    case 'Z':
      return std::to_string(a.changed.seconds);
    default:
      return std::nullopt;
  }
}

// Replaces the fields of a format. Returns nothing if it has an unknown one.
std::optional<std::string> FormatFields(std::string_view format, const Shown& shown) {
  std::string text;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      text += format[i];
      continue;
    }
    auto field = ++i < format.size() ? FieldText(format[i], shown) : std::nullopt;
    if (!field) return std::nullopt;
    text += *field;
  }
  return text;
}

Task<Result<void>> StatOne(const Mounted& at, const StatOptions& options, HostOwners& owners) {
  PENSTOCK_CO_TRY(client::Node node, co_await at.Resolve(options.follow));
  Shown shown{at.name, {}, node.attributes, at.mount->sizes().read};
  co_await owners.Localize(shown.attributes);
  if (node.attributes.type == client::FileType::kSymlink) {
    PENSTOCK_CO_TRY(shown.target, co_await at.mount->ReadLink(node.handle, at.name));
  }
  if (options.json) {
    OrderedJson json = EntryJson(at.server_path, {at.server_path, shown.attributes});
    if (!shown.target.empty()) json["target"] = shown.target;
    co_return WriteOutput(JsonLine(json));
  }
  if (options.format) co_return WriteOutput(*FormatFields(*options.format, shown) + "\n");
  const bool printable = OutputIsTerminal();
  if (printable) shown.name = Printable(shown.name);
  if (printable) shown.target = Printable(shown.target);
  co_return WriteOutput(StatText(shown));
}

int Stat(StatOptions options) {
  if (const auto wrong = PrintWrongDomain(options.owners)) return *wrong;
  if (options.format && !FormatFields(*options.format, {})) {
    return PrintUsageError(*options.format + ": a format has % and one of n N s b B o a A F h i d U G x y z X Y Z %");
  }
  return RunWithMounts(
      options.urls, options,
      [&](ClientRuntime& runtime, Mounts& mounts, const std::vector<client::Url>& urls) -> Task<Result<void>> {
        HostOwners owners(runtime, options.owners);
        const UseMount use = [&](ClientRuntime&, const Mounted& at) { return StatOne(at, options, owners); };
        co_return co_await ForEachMounted(runtime, mounts, urls, use);
      });
}

// ---- df ----

struct SpaceOptions : ClientOptions {
  std::vector<std::string> urls;
  bool human = false;
  bool files = false;
  bool json = false;
};

// The numbers of a line: octets or files.
struct Room {
  uint64_t total = 0;
  uint64_t free = 0;
  uint64_t available = 0;
  uint64_t used() const { return total - std::min(total, free); }
};

// The used part of what the user could use, rounded up, or "-".
std::string PercentUsed(const Room& room) {
  const auto used = static_cast<long double>(room.used());
  const long double usable = used + static_cast<long double>(room.available);
  if (usable == 0) return "-";
  const long double percent = used * 100 / usable;
  auto whole = static_cast<unsigned>(percent);
  if (static_cast<long double>(whole) < percent) ++whole;
  return fmt::format("{}%", whole);
}

std::string SpaceLine(const std::string& name, const Room& room, const SpaceOptions& options) {
  const auto number = [&](uint64_t value) {
    if (room.total == 0) return std::string("-");
    if (options.human) return HumanSize(value);
    return std::to_string(options.files ? value : (value + 1023) / 1024);
  };
  return fmt::format("{:>12} {:>12} {:>12} {:>5} {}\n", number(room.total), number(room.used()), number(room.available),
                     PercentUsed(room), name);
}

Task<Result<void>> SpaceOne(const Mounted& at, const SpaceOptions& options) {
  PENSTOCK_CO_TRY(const client::Node node, co_await at.Resolve());
  PENSTOCK_CO_TRY(const client::Space space, co_await at.mount->GetSpace(node.handle, at.name));
  if (options.json) {
    const OrderedJson json{{"path", at.server_path},
                           {"total", space.total},
                           {"free", space.free},
                           {"available", space.available},
                           {"total_files", space.total_files},
                           {"free_files", space.free_files},
                           {"available_files", space.available_files}};
    co_return WriteOutput(JsonLine(json));
  }
  const Room room = options.files ? Room{space.total_files, space.free_files, space.available_files}
                                  : Room{space.total, space.free, space.available};
  co_return WriteOutput(SpaceLine(OutputIsTerminal() ? Printable(at.name) : at.name, room, options));
}

int PrintSpace(const SpaceOptions& options) {
  return RunWithMounts(
      options.urls, options,
      [&](ClientRuntime& runtime, Mounts& mounts, const std::vector<client::Url>& urls) -> Task<Result<void>> {
        if (!options.json) {
          const std::string heading =
              fmt::format("{:>12} {:>12} {:>12} {:>5} {}\n",
                          options.files   ? "Inodes"
                          : options.human ? "Size"
                                          : "1K-blocks",
                          options.files ? "IUsed" : "Used", options.files ? "IFree" : "Available", "Use%", "URL");
          PENSTOCK_CO_CHECK(WriteOutput(heading));
        }
        const UseMount use = [&](ClientRuntime&, const Mounted& at) { return SpaceOne(at, options); };
        co_return co_await ForEachMounted(runtime, mounts, urls, use);
      });
}

}  // namespace

Command AddStat(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("stat", "Show the attributes of files on an NFS server");
  const auto options = std::make_shared<StatOptions>();
  command->add_option("URL", options->urls, "Files, directories or others")->required();
  command->add_flag("-L,--dereference", options->follow, "Follow a symbolic link");
  command->add_flag("-n,--numeric", options->owners.numbers, "Show numbers in place of the names of owners and groups");
  CLI::Option* const format = command->add_option(
      "-c,--format", options->format,
      "Print this text. In it %n is the name, %s the size, %b the number of blocks of 512 octets, %a the\n"
      "mode in octal, %A as ls shows it, %F the type, %h the links, %i the file number, %U the owner, %G\n"
      "the group, %x %y %z the times of access, modification and change, and %X %Y %Z those in seconds\n"
      "since 1970");
  command->add_flag("--json", options->json, "Print a JSON object for each URL, one on a line")->excludes(format);
  AddDomainOption(*command, options->owners);
  AddClientOptions(*command, *options);
  SetFooter(*command, "",
            {"# Show the attributes of a file", "penstock stat nfs://server.example/notes.txt",
             "# Print the size of a file", "penstock stat -c %s 'nfs://server.example/disk.img?proto=rdma'"});
  return {command, [options] { return Stat(*options); }};
}

Command AddSpace(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("df", "Show the room in file systems of an NFS server");
  const auto options = std::make_shared<SpaceOptions>();
  command->set_help_flag("--help", "Print this help message and exit");
  command->add_option("URL", options->urls, "Files or directories of the file systems")->required();
  command->add_flag("-h", options->human, "Show sizes with units, such as 1.5G, in place of KiB");
  command->add_flag("-i", options->files, "Show numbers of files in place of room");
  command->add_flag("--json", options->json, "Print a JSON object for each URL, one on a line");
  AddClientOptions(*command, *options);
  SetFooter(*command, "",
            {"# Show the room of an export", "penstock df -h nfs://server.example/photos",
             "# Get the free octets with jq", "penstock df --json nfs://server.example/photos | jq .available"});
  return {command, [options] { return PrintSpace(*options); }};
}

}  // namespace penstock::cli
