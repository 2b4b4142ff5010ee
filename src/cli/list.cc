// penstock ls: lists a directory of a server.
#include <fmt/chrono.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "cli/client_runtime.h"
#include "cli/commands.h"

namespace penstock::cli {
namespace {

struct ListOptions : ClientOptions {
  std::string url;
  bool long_format = false;
};

char TypeLetter(client::FileType type) {
  switch (type) {
    case client::FileType::kDirectory:
      return 'd';
    case client::FileType::kBlockDevice:
      return 'b';
    case client::FileType::kCharacterDevice:
      return 'c';
    case client::FileType::kSymlink:
      return 'l';
    case client::FileType::kSocket:
      return 's';
    case client::FileType::kFifo:
      return 'p';
    case client::FileType::kOther:
      return '?';
    case client::FileType::kRegular:
      break;
  }
  return '-';
}

// For example "drwxr-xr-x".
std::string ModeText(const client::Attributes& attributes) {
  std::string text(1, TypeLetter(attributes.type));
  for (int bit = 8; bit >= 0; --bit) text += (attributes.mode >> bit) & 1 ? "xwr"[bit % 3] : '-';
  const auto special = [&](uint32_t bit, size_t at, char letter) {
    if (attributes.mode & bit) text[at] = text[at] == 'x' ? letter : static_cast<char>(letter - 'a' + 'A');
  };
  special(04000, 3, 's');
  special(02000, 6, 's');
  special(01000, 9, 't');
  return text;
}

// The name with '?' for each control character, so that it cannot control a terminal.
std::string Printable(std::string name) {
  std::ranges::replace_if(name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return name;
}

void PrintEntry(const client::Entry& entry, bool long_format) {
  const std::string name = Printable(entry.name);
  if (!long_format) {
    fmt::print("{}\n", name);
  } else if (!entry.attributes) {
    fmt::print("??????????                                                    {}\n", name);
  } else {
    const client::Attributes& a = *entry.attributes;
    fmt::print("{} {:>3} {:>5} {:>5} {:>12} {:%Y-%m-%d %H:%M} {}\n", ModeText(a), a.links, Printable(a.owner),
               Printable(a.group), a.size, fmt::localtime(static_cast<std::time_t>(a.modified)), name);
  }
}

Task<client::Result<void>> ListTask(client::Mount& mount, const ListOptions& options) {
  const std::string& path = mount.url().path;
  PENSTOCK_CO_TRY(const client::Node node, co_await mount.Resolve(mount.path()));
  std::vector<client::Entry> entries;
  if (node.attributes.type == client::FileType::kDirectory) {
    PENSTOCK_CO_CHECK(
        co_await mount.List(node.handle, path, [&](client::Entry entry) { entries.push_back(std::move(entry)); }));
  } else {
    entries.push_back({path.substr(path.rfind('/') + 1), node.attributes});
  }
  std::ranges::sort(entries, {}, &client::Entry::name);
  for (const client::Entry& entry : entries) PrintEntry(entry, options.long_format);
  co_return client::Result<void>();
}

int List(const ListOptions& options) {
  return RunOnMounts({options.url}, options,
                     [&](ClientRuntime&, client::Mount& mount) { return ListTask(mount, options); });
}

}  // namespace

Command AddList(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("ls", "List a directory of an NFS server");
  const auto options = std::make_shared<ListOptions>();
  command->add_option("URL", options->url)->required();
  command->add_flag("-l", options->long_format, "Show mode, links, owner, group, size and time");
  AddClientOptions(*command, *options);
  return {command, [options] { return List(*options); }};
}

}  // namespace penstock::cli
