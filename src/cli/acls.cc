// penstock getfacl and setfacl: access control lists of files on a server, of version 4 or of POSIX beside version 3.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/acl_text.h"
#include "cli/byte_source.h"
#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/host_owners.h"
#include "cli/interface.h"
#include "cli/mounts.h"
#include "cli/output.h"
#include "cli/printable.h"
#include "cli/walk.h"
#include "idmap/owner_text.h"
#include "protocol/nfs4.h"
#include "protocol/nfsacl.h"

namespace penstock::cli {
namespace {

using client::Result;
using PosixList = std::vector<client::PosixAce>;

bool IsVersion3(const Mounted& at) { return at.mount->version() == "3"; }

client::Error WrongEntry(const std::string& entry, bool version3) {
  return {fmt::format("{}: not an entry such as {}", entry, version3 ? "user:ann:rw-" : "A::ann@example.org:rw"),
          std::nullopt, EINVAL};
}

// ---- trees ----

// Calls `use` for the object, and with `recursive` for all below it. Symbolic links, which have no lists, are left out.
Task<Result<void>> UseTree(ClientRuntime& runtime, const Mounted& at, bool recursive, UseMount use) {
  if (!recursive) co_return co_await use(runtime, at);
  PENSTOCK_CO_TRY(client::Node node, co_await at.Resolve());
  const auto visit = [&](const WalkedEntry& entry) -> Task<void> {
    const auto& attributes = entry.entry.attributes;
    if (entry.entry.is_referral || (attributes && attributes->type == client::FileType::kSymlink)) co_return;
    const Mounted each{at.mount, JoinPath(at.path, entry.path), JoinPath(at.server_path, entry.path),
                       JoinPath(at.name, entry.path)};
    const Result<void> used = co_await use(runtime, each);
    if (!used) runtime.Report(each.Named(used.error()));
  };
  WalkOptions walk;
  walk.follow_referrals = false;
  const WalkHandlers handlers{.visit = visit, .report = [&](const client::Error& error) { runtime.Report(error); }};
  co_await Walk(at, std::move(node), {}, std::move(walk), handlers);
  co_return Result<void>();
}

// ---- getfacl ----

struct GetAclOptions : ClientOptions {
  std::vector<std::string> urls;
  bool recursive = false;
  OwnerOptions owners;
};

Task<std::string> PosixListText(const PosixList& acl, std::string prefix, HostOwners& owners) {
  std::string text;
  for (const client::PosixAce& ace : acl) {
    std::string name;
    const auto kind = ace.type == nfsacl::NA_USER ? idmap::Kind::kUser : idmap::Kind::kGroup;
    if (IsNamed(ace)) name = co_await owners.NameOf(kind, ace.id);
    text += prefix + PosixAceText(ace, name) + "\n";
  }
  co_return text;
}

Task<Result<void>> GetAclOf(const Mounted& at, HostOwners& owners) {
  PENSTOCK_CO_TRY(const client::Node node, co_await at.Resolve());
  client::Attributes attributes = node.attributes;
  co_await owners.Localize(attributes);
  std::string text = fmt::format("# file: {}\n# owner: {}\n# group: {}\n",
                                 OutputIsTerminal() ? Printable(at.server_path) : at.server_path,
                                 Printable(attributes.owner), Printable(attributes.group));
  if (IsVersion3(at)) {
    PENSTOCK_CO_TRY(client::PosixAcl acl, co_await at.mount->GetPosixAcl(node.handle, at.name));
    if (acl.access.empty()) acl.access = PosixAclOfMode(attributes.mode);
    SortPosixAcl(acl.access);
    SortPosixAcl(acl.defaults);
    text += co_await PosixListText(acl.access, "", owners);
    text += co_await PosixListText(acl.defaults, "default:", owners);
  } else {
    PENSTOCK_CO_TRY(const std::vector<client::Ace> acl, co_await at.mount->GetAcl(node.handle, at.name));
    for (const client::Ace& ace : acl) text += Printable(AceText(ace)) + "\n";
  }
  co_return WriteOutput(text + "\n");
}

int GetAcls(GetAclOptions options) {
  if (const auto wrong = PrintWrongDomain(options.owners)) return *wrong;
  return RunWithMounts(
      options.urls, options,
      [&](ClientRuntime& runtime, Mounts& mounts, const std::vector<client::Url>& urls) -> Task<Result<void>> {
        HostOwners owners(runtime, options.owners);
        const UseMount get = [&](ClientRuntime&, const Mounted& at) { return GetAclOf(at, owners); };
        const UseMount use = [&](ClientRuntime& where, const Mounted& at) {
          return UseTree(where, at, options.recursive, get);
        };
        co_return co_await ForEachMounted(runtime, mounts, urls, use);
      });
}

// ---- setfacl ----

struct SetAclOptions : ClientOptions {
  std::vector<std::string> urls;
  bool recursive = false;
  std::string set;
  std::string set_file;
  std::string modify;
  std::string remove;
  bool remove_all = false;
  bool remove_default = false;
};

// Finds the numbers of named entries.
Task<Result<std::vector<std::pair<NamedPosixAce, client::PosixAce>>>> Numbered(const std::string& text,
                                                                               HostOwners& owners) {
  auto named = ParsePosixAces(text);
  if (!named) co_return std::unexpected(WrongEntry(named.error(), true));
  std::vector<std::pair<NamedPosixAce, client::PosixAce>> numbered;
  for (const NamedPosixAce& ace : *named) {
    client::PosixAce entry{ace.type, 0, ace.permissions.value_or(0)};
    if (IsNamed(entry)) {
      const auto kind = ace.type == nfsacl::NA_USER ? idmap::Kind::kUser : idmap::Kind::kGroup;
      PENSTOCK_CO_TRY(const std::string number, co_await owners.NumberOf(kind, ace.name));
      const auto id = idmap::NumberIn(number);
      if (!id) co_return std::unexpected(WrongEntry(ace.name, true));
      entry.id = *id;
    }
    numbered.emplace_back(ace, entry);
  }
  co_return numbered;
}

// Puts entries into the lists. A default list gets the entries that each list needs from the access list.
Task<Result<void>> PutPosixEntries(client::PosixAcl& acl, const std::string& text, HostOwners& owners) {
  PENSTOCK_CO_TRY(const auto numbered, co_await Numbered(text, owners));
  bool has_mask = false;
  bool has_default_mask = false;
  for (const auto& [named, ace] : numbered) {
    if (!named.permissions) co_return std::unexpected(WrongEntry(text, true));
    if (named.is_default && acl.defaults.empty()) {
      for (const client::PosixAce& each : acl.access) {
        if (!IsNamed(each) && each.type != nfsacl::NA_CLASS_OBJ) acl.defaults.push_back(each);
      }
    }
    PutPosixAce(named.is_default ? acl.defaults : acl.access, ace);
    const bool is_mask = ace.type == nfsacl::NA_CLASS_OBJ;
    has_mask = has_mask || (is_mask && !named.is_default);
    has_default_mask = has_default_mask || (is_mask && named.is_default);
  }
  if (!has_mask) ComputeMask(acl.access);
  if (!has_default_mask) ComputeMask(acl.defaults);
  co_return Result<void>();
}

Task<Result<void>> RemovePosixEntries(client::PosixAcl& acl, const std::string& text, HostOwners& owners) {
  PENSTOCK_CO_TRY(const auto numbered, co_await Numbered(text, owners));
  for (const auto& [named, ace] : numbered) {
    if (!IsNamed(ace) && ace.type != nfsacl::NA_CLASS_OBJ) co_return std::unexpected(WrongEntry(text, true));
    PosixList& list = named.is_default ? acl.defaults : acl.access;
    const client::PosixAce& removed = ace;
    const auto count = std::erase_if(
        list, [&](const client::PosixAce& each) { return each.type == removed.type && each.id == removed.id; });
    if (count == 0) {
      co_return std::unexpected(
          client::Error{fmt::format("{}: the list has no such entry", text), std::nullopt, ENOENT});
    }
    if (IsNamed(removed)) ComputeMask(list);
  }
  co_return Result<void>();
}

Task<Result<void>> SetPosix(const Mounted& at, const client::Node& node, const SetAclOptions& options,
                            HostOwners& owners) {
  client::PosixAcl acl;
  if (options.set.empty()) {
    PENSTOCK_CO_TRY(acl, co_await at.mount->GetPosixAcl(node.handle, at.name));
  }
  if (acl.access.empty()) acl.access = PosixAclOfMode(node.attributes.mode);
  if (options.remove_all) {
    std::erase_if(acl.access,
                  [](const client::PosixAce& ace) { return IsNamed(ace) || ace.type == nfsacl::NA_CLASS_OBJ; });
  }
  if (options.remove_all || options.remove_default) acl.defaults.clear();
  if (!options.remove.empty()) PENSTOCK_CO_CHECK(co_await RemovePosixEntries(acl, options.remove, owners));
  const std::string& put = options.set.empty() ? options.modify : options.set;
  if (!put.empty()) PENSTOCK_CO_CHECK(co_await PutPosixEntries(acl, put, owners));
  // In a tree, what is for directories is not for files.
  if (options.recursive && node.attributes.type != client::FileType::kDirectory) acl.defaults.clear();
  SortPosixAcl(acl.access);
  SortPosixAcl(acl.defaults);
  co_return co_await at.mount->SetPosixAcl(node.handle, at.name, acl);
}

// Users and groups of this host go out as numbers. `without_inheritance`: for a file, which nothing inherits from.
Task<Result<std::vector<client::Ace>>> AcesOf(const std::string& text, HostOwners& owners, bool without_inheritance) {
  auto aces = ParseAces(text);
  if (!aces) co_return std::unexpected(WrongEntry(aces.error(), false));
  if (without_inheritance) {
    constexpr uint32_t kInheritance =
        nfs4::ACE4_FILE_INHERIT_ACE | nfs4::ACE4_DIRECTORY_INHERIT_ACE | nfs4::ACE4_NO_PROPAGATE_INHERIT_ACE;
    std::erase_if(*aces, [](const client::Ace& ace) { return (ace.flags & nfs4::ACE4_INHERIT_ONLY_ACE) != 0; });
    for (client::Ace& ace : *aces) ace.flags &= ~kInheritance;
  }
  for (client::Ace& ace : *aces) {
    const bool is_group = (ace.flags & nfs4::ACE4_IDENTIFIER_GROUP) != 0;
    const idmap::Kind kind = is_group ? idmap::Kind::kGroup : idmap::Kind::kUser;
    PENSTOCK_CO_TRY(ace.who, co_await owners.NumberOf(kind, ace.who));
  }
  co_return *std::move(aces);
}

bool SamePrincipal(const client::Ace& one, const client::Ace& other) {
  return one.type == other.type && one.flags == other.flags && one.who == other.who;
}

Task<Result<void>> SetNfs4(const Mounted& at, const client::Node& node, const SetAclOptions& options,
                           HostOwners& owners) {
  if (options.remove_all || options.remove_default) {
    constexpr auto kWhy =
        "-b and -k are for the lists of POSIX, which version 3 has; chmod sets a list of version 4 back";
    co_return std::unexpected(client::Error{kWhy, std::nullopt, ENOTSUP});
  }
  const bool is_file_of_tree = options.recursive && node.attributes.type != client::FileType::kDirectory;
  std::vector<client::Ace> acl;
  if (!options.set.empty()) {
    PENSTOCK_CO_TRY(acl, co_await AcesOf(options.set, owners, is_file_of_tree));
    co_return co_await at.mount->SetAcl(node.handle, at.name, acl);
  }
  PENSTOCK_CO_TRY(acl, co_await at.mount->GetAcl(node.handle, at.name));
  PENSTOCK_CO_TRY(const std::vector<client::Ace> removed, co_await AcesOf(options.remove, owners, is_file_of_tree));
  for (const client::Ace& ace : removed) {
    if (std::erase_if(acl, [&](const client::Ace& each) { return SamePrincipal(each, ace); }) > 0) continue;
    co_return std::unexpected(
        client::Error{fmt::format("{}: the list has no such entry", AceText(ace)), std::nullopt, ENOENT});
  }
  PENSTOCK_CO_TRY(const std::vector<client::Ace> put, co_await AcesOf(options.modify, owners, is_file_of_tree));
  size_t added = 0;
  for (const client::Ace& ace : put) {
    const auto found = std::ranges::find_if(acl, [&](const client::Ace& each) { return SamePrincipal(each, ace); });
    if (found != acl.end()) {
      found->mask = ace.mask;
    } else {
      acl.insert(acl.begin() + static_cast<ptrdiff_t>(added++), ace);
    }
  }
  co_return co_await at.mount->SetAcl(node.handle, at.name, acl);
}

Task<Result<void>> SetAclOf(const Mounted& at, const SetAclOptions& options, HostOwners& owners) {
  PENSTOCK_CO_TRY(const client::Node node, co_await at.Resolve());
  Task<Result<void>> set = IsVersion3(at) ? SetPosix(at, node, options, owners) : SetNfs4(at, node, options, owners);
  co_return co_await std::move(set);
}

// Reads the list of --set-file.
Task<Result<std::string>> ReadList(ClientRuntime& runtime, std::string name) {
  constexpr size_t kMostOctets = 1 << 20;
  PENSTOCK_CO_TRY(const auto source, co_await OpenLocal(runtime, name));
  std::string text;
  for (;;) {
    PENSTOCK_CO_TRY(const ConstBytes octets, co_await source->Next());
    if (octets.empty()) break;
    text += AsText(octets);
    if (text.size() > kMostOctets) co_return std::unexpected(client::Error{name + ": too long", std::nullopt, E2BIG});
  }
  if (text.find_first_not_of(" \t\r\n") == text.npos) {
    co_return std::unexpected(client::Error{name + ": no entries", std::nullopt, EINVAL});
  }
  co_return text;
}

Task<Result<void>> SetAll(ClientRuntime& runtime, Mounts& mounts, const std::vector<client::Url>& urls,
                          SetAclOptions options) {
  if (!options.set_file.empty()) {
    PENSTOCK_CO_TRY(options.set, co_await ReadList(runtime, options.set_file));
  }
  HostOwners owners(runtime, {});
  const UseMount set = [&](ClientRuntime&, const Mounted& at) { return SetAclOf(at, options, owners); };
  const UseMount use = [&](ClientRuntime& where, const Mounted& at) {
    return UseTree(where, at, options.recursive, set);
  };
  co_return co_await ForEachMounted(runtime, mounts, urls, use);
}

int SetAcls(const SetAclOptions& options) {
  const bool sets = !options.set.empty() || !options.set_file.empty();
  const bool changes =
      !options.modify.empty() || !options.remove.empty() || options.remove_all || options.remove_default;
  if (!sets && !changes) return PrintUsageError("setfacl: one of --set, --set-file, -m, -x, -b and -k is required");
  if (sets && changes) return PrintUsageError("setfacl: --set and --set-file exclude -m, -x, -b and -k");
  return RunWithMounts(options.urls, options,
                       [&](ClientRuntime& runtime, Mounts& mounts, const std::vector<client::Url>& urls) {
                         return SetAll(runtime, mounts, urls, options);
                       });
}

}  // namespace

Command AddGetAcl(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("getfacl", "Show access control lists of files on an NFS server");
  const auto options = std::make_shared<GetAclOptions>();
  command->add_option("URL", options->urls, "Files or directories")->required();
  command->add_flag("-R,--recursive", options->recursive,
                    "Show the lists of all that is in directories as well. Symbolic links are left out");
  command->add_flag("-n,--numeric", options->owners.numbers, "Show numbers in place of names");
  AddDomainOption(*command, options->owners);
  AddClientOptions(*command, *options);
  SetFooter(
      *command, "",
      {"# Show the list of a file", "penstock getfacl nfs://server.example/notes.txt", "# Copy a list to another file",
       "penstock getfacl nfs://server.example/a | penstock setfacl --set-file - nfs://server.example/b"});
  return {command, [options] { return GetAcls(*options); }};
}

Command AddSetAcl(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("setfacl", "Change access control lists of files on an NFS server");
  const auto options = std::make_shared<SetAclOptions>();
  command->add_option("URL", options->urls, "Files or directories")->required();
  CLI::Option* const set = command->add_option("--set", options->set, "Replace the list by these entries");
  command->add_option("--set-file", options->set_file, "The same with the entries in this file; -: standard input")
      ->type_name("FILE")
      ->excludes(set);
  command->add_option("-m,--modify", options->modify, "Add entries, or change their permissions");
  command->add_option("-x,--remove", options->remove, "Remove entries. Their permissions do not matter");
  command->add_flag("-b,--remove-all", options->remove_all,
                    "In version 3: remove all entries that a mode does not have");
  command->add_flag("-k,--remove-default", options->remove_default, "In version 3: remove the default list");
  command->add_flag(
      "-R,--recursive", options->recursive,
      "Change the lists of all that is in directories as well. Symbolic links are left out. Files get no\n"
      "entries or flags that are for what a directory's entries inherit");
  AddClientOptions(*command, *options);
  SetFooter(
      *command,
      "In version 4, an entry is type:flags:principal:permissions, such as A::ann@example.org:rw (nfs4_acl(5)).\n"
      "In version 3, an entry is user:NAME:rwx, group:NAME:rwx, mask::rwx or other::rwx, with default: before it\n"
      "for what new objects in a directory get. Commas separate entries.",
      {"# Let a user read a file, in version 4", "penstock setfacl -m A::ann@example.org:RX nfs://server.example/tool",
       "# The same in version 3", "penstock setfacl -m user:ann:r-x 'nfs://server.example/tool?vers=3'"});
  return {command, [options] { return SetAcls(*options); }};
}

}  // namespace penstock::cli
