#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "cli/client_runtime.h"
#include "cli/commands.h"

namespace penstock::cli {
namespace {

// "drwxr-xr-x"
std::string ModeText(const nfs3::fattr3& attributes) {
  const auto type = [&] {
    switch (attributes.type) {
      case nfs3::ftype3::NF3DIR:
        return 'd';
      case nfs3::ftype3::NF3BLK:
        return 'b';
      case nfs3::ftype3::NF3CHR:
        return 'c';
      case nfs3::ftype3::NF3LNK:
        return 'l';
      case nfs3::ftype3::NF3SOCK:
        return 's';
      case nfs3::ftype3::NF3FIFO:
        return 'p';
      case nfs3::ftype3::NF3REG:
        break;
    }
    return '-';
  };
  std::string text(1, type());
  for (int bit = 8; bit >= 0; --bit) text += (attributes.mode >> bit) & 1 ? "xwr"[bit % 3] : '-';
  const auto special = [&](uint32_t bit, size_t at, char letter) {
    if (attributes.mode & bit) text[at] = text[at] == 'x' ? letter : static_cast<char>(letter - 'a' + 'A');
  };
  special(04000, 3, 's');
  special(02000, 6, 's');
  special(01000, 9, 't');
  return text;
}

// A name as a terminal can bear it: control characters as '?'.
std::string Printable(std::string name) {
  std::ranges::replace_if(name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return name;
}

void PrintEntry(const client::Mount::Entry& entry, bool long_format) {
  const std::string name = Printable(entry.name);
  if (!long_format) {
    fmt::print("{}\n", name);
  } else if (!entry.attributes) {
    fmt::print("??????????                                                    {}\n", name);
  } else {
    const nfs3::fattr3& a = *entry.attributes;
    fmt::print("{} {:>3} {:>5} {:>5} {:>12} {:%Y-%m-%d %H:%M} {}\n", ModeText(a), a.nlink, a.uid, a.gid, a.size,
               fmt::localtime(static_cast<std::time_t>(a.mtime.seconds)), name);
  }
}

Task<client::Result<void>> ListTask(ClientRuntime& runtime, const ListOptions& options, const client::Url& url) {
  PENSTOCK_CO_TRY(const auto mount, co_await runtime.Mount(url));
  PENSTOCK_CO_TRY(const client::Node node, co_await mount->Resolve(mount->path()));
  std::vector<client::Mount::Entry> entries;
  if (node.attributes.type == nfs3::ftype3::NF3DIR) {
    PENSTOCK_CO_CHECK(co_await mount->List(node.handle, url.path,
                                           [&](client::Mount::Entry entry) { entries.push_back(std::move(entry)); }));
  } else {
    entries.push_back({url.path.substr(url.path.rfind('/') + 1), node.attributes});
  }
  std::ranges::sort(entries, {}, &client::Mount::Entry::name);
  for (const client::Mount::Entry& entry : entries) PrintEntry(entry, options.long_format);
  co_return client::Result<void>();
}

}  // namespace

int List(const ListOptions& options) {
  const auto url = client::Url::Parse(options.url);
  if (!url) {
    PrintError(url.error().message);
    return 1;
  }
  ClientRuntime runtime(options.trace);
  return runtime.Run(ListTask(runtime, options, *url));
}

}  // namespace penstock::cli
