#include "copying/remote_tree.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/result.h"
#include "copying/remote_extras.h"
#include "copying/remote_file.h"

namespace penstock::copying {
namespace {

using client::Access;
using client::Handle;
using client::Mount;
using client::Node;

class RemoteDirectory final : public Directory {
 public:
  RemoteDirectory(RemoteTree& tree, std::string name, const Handle& handle)
      : Directory(std::move(name)), tree_(tree), handle_(handle) {}

  std::string identity() const override {
    std::string text = tree_.name() + '/';
    for (const std::byte octet : handle_.bytes()) text += fmt::format("{:02x}", std::to_integer<unsigned>(octet));
    return text + fmt::format("/{}", handle_.part);
  }
  const void* tree() const override { return &tree_; }
  unsigned buffers_per_read() const override { return tree_.buffers_per_read(); }

  Task<Result<std::vector<Entry>>> List() override {
    std::vector<Entry> entries;
    client::ListPosition position;
    for (bool ends = false; !ends;) {
      auto listed = co_await mount().ListFrom(handle_, name(), position, client::ListContent::kAttributesAndHandles);
      if (!listed) co_return tree_.Reason(listed.error(), name());
      for (client::Entry& found : listed->entries) {
        Entry entry{.name = std::move(found.name), .attributes = {}, .handle = found.handle};
        if (found.attributes) {
          entry.attributes = *std::move(found.attributes);
        } else {
          // A look-up tells them. It also follows a referral.
          entry.attributes.type = FileType::kOther;
          entry.handle.reset();
        }
        entries.push_back(std::move(entry));
      }
      position = listed->next;
      ends = listed->ends;
    }
    co_return entries;
  }

  Task<Result<Entry>> Find(std::string name) override {
    PENSTOCK_CO_TRY(Node node, co_await LookUp(name));
    co_return Entry{.name = std::move(name), .attributes = std::move(node.attributes), .handle = node.handle};
  }

  Task<Result<Attributes>> GetAttributes() override {
    auto attributes = co_await mount().GetAttributes(handle_, name());
    if (!attributes) co_return tree_.Reason(attributes.error(), name());
    co_return *std::move(attributes);
  }

  Task<Result<void>> SetAttributes(NewAttributes attributes) override {
    co_return Plain(co_await mount().SetAttributes(handle_, name(), attributes), name());
  }

  Task<Result<std::shared_ptr<Directory>>> OpenDirectory(Entry entry) override {
    PENSTOCK_CO_TRY(const Node node, co_await NodeOf(entry));
    if (node.attributes.type != FileType::kDirectory) {
      co_return std::unexpected(Error{client::Describe(Status::kNotDirectory), Status::kNotDirectory, ENOTDIR});
    }
    co_return std::make_shared<RemoteDirectory>(tree_, NameOf(entry.name), node.handle);
  }

  Task<Result<std::shared_ptr<Directory>>> MakeDirectory(std::string name, uint32_t mode) override {
    const auto made = co_await mount().MakeDirectory(handle_, name, mode);
    if (!made) co_return tree_.Reason(made.error(), name);
    co_return std::make_shared<RemoteDirectory>(tree_, NameOf(name), made->handle);
  }

  Task<Result<std::unique_ptr<File>>> Open(Entry entry) override {
    PENSTOCK_CO_TRY(const Node node, co_await NodeOf(entry));
    co_return co_await OpenNode(node, entry.name, Access::kRead);
  }

  Task<Result<std::unique_ptr<File>>> OpenForWriting(std::string name) override {
    PENSTOCK_CO_TRY(const Node node, co_await LookUp(name));
    co_return co_await OpenNode(node, name, Access::kBoth);
  }

  Task<Result<std::unique_ptr<File>>> Create(std::string name, NewFile file) override {
    auto created = co_await CreateFile(mount(), name, file);
    if (!created) co_return std::unexpected(std::move(created).error());
    Attributes attributes = (*created)->node().attributes;
    co_return std::make_unique<RemoteFile>(tree_, *std::move(created), std::move(attributes));
  }

  Task<Result<Content>> ReadWhole(Entry entry, Bytes into) override {
    PENSTOCK_CO_TRY(const Node node, co_await NodeOf(entry));
    PENSTOCK_CO_TRY(const auto file, co_await OpenOne(mount(), node, entry.name, Access::kRead));
    Content content;
    content.attributes = file->attributes_at_open().value_or(node.attributes);
    Result<void> result;
    while (content.count < into.size()) {
      const auto read = co_await file->Read(content.count, into.subspan(content.count));
      if (!read) result = tree_.Reason(read.error(), entry.name);
      if (!read || read->count == 0) break;
      content.count += read->count;
      if (read->eof) break;
    }
    const auto closed = co_await file->Close();
    if (result && !closed) result = tree_.Reason(closed.error(), entry.name);
    if (!result) co_return std::unexpected(std::move(result).error());
    co_return content;
  }

  Task<Result<void>> WriteWhole(std::string name, NewFile file, ConstBytes octets) override {
    Mount& at = mount();
    PENSTOCK_CO_TRY(const auto created, co_await CreateFile(at, name, file));
    Result<void> result = co_await WriteAndCommit(at, *created, octets);
    if (result) result = co_await SetLast(at, *created, file.attributes);
    const auto closed = co_await created->Close();
    if (result && !closed) result = closed;
    if (!result) {
      (void)co_await at.Remove(handle_, name);
      co_return tree_.Reason(result.error(), name);
    }
    co_return result;
  }

  // The data were committed before, and the server makes the change of the name stable before it replies.
  Task<Result<void>> Publish(std::string temporary, std::string name, uint64_t) override {
    co_return Plain(co_await mount().Rename(handle_, temporary, handle_, name), temporary);
  }

  Task<Result<std::unique_ptr<Extras>>> OpenExtras(Entry entry) override {
    PENSTOCK_CO_TRY(const Node node, co_await NodeOf(entry));
    if (node.attributes.type == FileType::kSymlink) {
      co_return std::unexpected(Error{DescribeErrno(ELOOP), std::nullopt, ELOOP});
    }
    co_return RemoteExtrasOf(tree_, node);
  }

  Task<Result<std::unique_ptr<Extras>>> OpenOwnExtras() override {
    PENSTOCK_CO_TRY(Attributes attributes, co_await GetAttributes());
    co_return RemoteExtrasOf(tree_, {.handle = handle_, .attributes = std::move(attributes), .name = name()});
  }

  Task<Result<std::string>> ReadLink(Entry entry) override {
    PENSTOCK_CO_TRY(const Node node, co_await NodeOf(entry));
    auto text = co_await mount().ReadLink(node.handle, entry.name);
    if (!text) co_return tree_.Reason(text.error(), entry.name);
    co_return *std::move(text);
  }

  Task<Result<void>> MakeSymlink(std::string name, std::string text) override {
    const auto made = co_await mount().MakeSymlink(handle_, name, text);
    if (!made) co_return tree_.Reason(made.error(), name);
    co_return Result<void>();
  }

  Task<Result<void>> MakeNode(std::string name, Attributes attributes) override {
    const auto made = co_await mount().MakeNode(handle_, name, attributes.type, attributes.mode & 0777,
                                                attributes.device_major, attributes.device_minor);
    if (!made) co_return tree_.Reason(made.error(), name);
    co_return Result<void>();
  }

  Task<Result<void>> Link(Directory& from, std::string target, std::string name) override {
    auto& other = dynamic_cast<RemoteDirectory&>(from);
    PENSTOCK_CO_TRY(const Node node, co_await other.LookUp(target));
    co_return Plain(co_await mount().Link(node.handle, handle_, name), name);
  }

  Task<Result<void>> Rename(std::string from, std::string to) override {
    co_return Plain(co_await mount().Rename(handle_, from, handle_, to), from);
  }

  Task<Result<void>> SetAttributesOf(std::string name, NewAttributes attributes) override {
    PENSTOCK_CO_TRY(const Node node, co_await LookUp(name));
    if (node.attributes.type == FileType::kSymlink) attributes.mode.reset();
    co_return Plain(co_await mount().SetAttributes(node.handle, name, attributes), name);
  }

  Task<Result<void>> Remove(std::string name) override {
    co_return Plain(co_await mount().Remove(handle_, name), name);
  }

  Task<Result<void>> RemoveDirectory(std::string name) override {
    co_return Plain(co_await mount().RemoveDirectory(handle_, name), name);
  }

 private:
  Mount& mount() { return tree_.mount(); }

  Result<void> Plain(Result<void> result, std::string_view name) const {
    if (!result) return tree_.Reason(std::move(result).error(), name);
    return result;
  }

  Task<Result<Node>> LookUp(const std::string& name) {
    auto node = co_await mount().Lookup(handle_, name);
    if (!node) co_return tree_.Reason(std::move(node).error(), name);
    co_return node;
  }

  Task<Result<Node>> NodeOf(const Entry& entry) {
    if (entry.handle) {
      co_return Node{.handle = *entry.handle, .attributes = entry.attributes, .directory = handle_, .name = entry.name};
    }
    co_return co_await LookUp(entry.name);
  }
  using Directory::NameOf;

  Task<Result<std::unique_ptr<client::File>>> OpenOne(Mount& mount, const Node& node, const std::string& name,
                                                      Access access) {
    if (node.attributes.type != FileType::kRegular) {
      co_return std::unexpected(Error{"not a regular file any more", std::nullopt, EINVAL});
    }
    auto file = co_await mount.OpenFile(node, name, access);
    if (!file) co_return tree_.Reason(std::move(file).error(), name);
    co_return file;
  }

  Task<Result<std::unique_ptr<File>>> OpenNode(const Node& node, const std::string& name, Access access) {
    auto file = co_await OpenOne(mount(), node, name, access);
    if (!file) co_return std::unexpected(std::move(file).error());
    // The attributes of the look-up may be old.
    std::optional<Attributes> attributes = (*file)->attributes_at_open();
    if (!attributes) {
      auto found = co_await mount().GetAttributes(node.handle, name);
      if (!found) {
        (void)co_await (*file)->Close();
        co_return tree_.Reason(std::move(found).error(), name);
      }
      attributes = *std::move(found);
    }
    co_return std::make_unique<RemoteFile>(tree_, *std::move(file), *std::move(attributes));
  }

  Task<Result<std::unique_ptr<client::File>>> CreateFile(Mount& at, const std::string& name, const NewFile& file) {
    NewAttributes access;
    uint32_t mode = file.mode;
    if (file.like) {
      const auto old = co_await at.Lookup(handle_, *file.like);
      if (!old && old.error().status != Status::kNotFound) co_return tree_.Reason(old.error(), *file.like);
      if (old && old->attributes.type == FileType::kRegular) {
        // A file that the user may not write must not be replaced only because its directory is writable.
        const auto granted = co_await at.CheckAccess(old->handle, *file.like, client::right::kModify);
        if (!granted) co_return tree_.Reason(granted.error(), *file.like);
        if ((granted->rights & client::right::kModify) == 0) {
          co_return std::unexpected(Error{client::Describe(Status::kAccess), Status::kAccess, EACCES});
        }
        mode = old->attributes.mode & 0777;
        access.owner = old->attributes.owner;
        access.group = old->attributes.group;
      }
    }
    // Random names do not clash, so that no exclusive creation is necessary.
    auto created = co_await at.CreateFile(handle_, name, mode);
    if (!created) co_return tree_.Reason(std::move(created).error(), name);
    const Attributes& made = (*created)->node().attributes;
    if (access.owner == made.owner) access.owner.reset();
    if (access.group == made.group) access.group.reset();
    if (access.owner || access.group) {
      const auto set = co_await at.SetAttributes((*created)->node().handle, name, access);
      if (!set) {
        (void)co_await (*created)->Close();
        (void)co_await at.Remove(handle_, name);
        Error error = set.error();
        error.message = "a new file cannot have the owner of the old one: " + ReasonOf(error, name);
        co_return std::unexpected(std::move(error));
      }
    }
    co_return created;
  }

  // If the server restarts meanwhile, the octets may be lost, so they are written again.
  static Task<Result<void>> WriteAndCommit(Mount& at, client::File& file, ConstBytes octets) {
    constexpr int kMostPasses = 5;
    using Stability = client::File::Stability;
    // A single WRITE needs no COMMIT.
    const auto stability = octets.size() <= at.sizes().write ? Stability::kStable : Stability::kUnstable;
    for (int pass = 0; pass < kMostPasses; ++pass) {
      std::optional<client::Verifier> verifier;
      bool mixed = false;
      bool stable = true;
      for (size_t done = 0; done < octets.size();) {
        PENSTOCK_CO_TRY(const auto written, co_await file.Write(done, octets.subspan(done), stability));
        mixed = mixed || (verifier && *verifier != written.verifier);
        verifier = written.verifier;
        stable = stable && written.stable;
        done += written.count;
      }
      if (stable) co_return Result<void>();
      PENSTOCK_CO_TRY(const client::Verifier committed, co_await file.Commit());
      if (!mixed && committed == *verifier) co_return Result<void>();
    }
    co_return std::unexpected(Error{"the server keeps losing uncommitted data", std::nullopt});
  }

  static Task<Result<void>> SetLast(Mount& at, const client::File& file, const NewAttributes& attributes) {
    const bool some = attributes.mode || attributes.owner || attributes.group || attributes.accessed ||
                      attributes.modified || attributes.size;
    if (!some) co_return Result<void>();
    co_return co_await at.SetAttributes(file.node().handle, file.name(), attributes);
  }

  RemoteTree& tree_;
  const Handle handle_;
};

}  // namespace

std::shared_ptr<Directory> RemoteTree::Open(const Handle& directory, const std::string& path) {
  return std::make_shared<RemoteDirectory>(*this, name_ + path, directory);
}

std::unexpected<Error> RemoteTree::Reason(Error error, std::string_view name) const {
  error.message = ReasonOf(error, name);
  return std::unexpected(client::WithTrouble(std::move(error), mount_.trouble()));
}

}  // namespace penstock::copying
