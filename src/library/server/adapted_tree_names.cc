// The methods of AdaptedTree for names: look-ups, directories, and objects that come and go.
#include <algorithm>
#include <utility>

#include "fs/names.h"
#include "library/server/adapted_tree.h"

namespace penstock::library {

using fs::Error;
using fs::FileType;
using fs::Handle;
using fs::NewAttributes;
using fs::Node;
using fs::RequestContext;
using fs::Result;
using fs::SetTime;

namespace {

// Another client may remove or make the name meanwhile.
constexpr int kAttempts = 4;
constexpr size_t kLongestTarget = 4096;

// The times in which an exclusive Create stores its verifier until the client sets the file's times (RFC 1813 §3.3.8):
// 31 bits in the seconds of each time, and the remaining two in their nanoseconds.
struct TimesOfVerifier {
  fs::Timestamp atime, mtime;

  explicit TimesOfVerifier(fs::CreateVerifier verifier)
      : atime(Half(static_cast<uint32_t>(verifier.value()))),
        mtime(Half(static_cast<uint32_t>(verifier.value() >> 32))) {}
  bool Match(const fs::Attributes& file) const { return file.atime == atime && file.mtime == mtime; }

 private:
  static fs::Timestamp Half(uint32_t bits) { return {bits & 0x7fffffff, bits >> 31}; }
};

}  // namespace

Result<AdaptedTree::Entry> AdaptedTree::Search(EmbeddedCalls& calls, const Object& directory, std::string_view name) {
  if (!directory.is_directory()) return std::unexpected(Error::kNotDir);
  PENSTOCK_CHECK(fs::CheckName(name, properties_.name_max));
  if (!RightsTo(calls, directory).execute) return std::unexpected(Error::kAccess);
  if (name == "." || (name == ".." && IsRoot(directory.handle))) return Entry(directory);
  const auto found = calls.Lookup(directory.handle, std::string(name));
  if (!found && found.error() == Error::kNoEnt) return Entry();
  if (!found) return std::unexpected(found.error());
  const auto attributes = AttributesOf(calls, *found);
  // It has lost its name since the look-up.
  if (!attributes && attributes.error() == Error::kStale) return Entry();
  if (!attributes) return std::unexpected(attributes.error());
  return Entry(Object{*found, *attributes});
}

fs::Observed<Node> AdaptedTree::Lookup(const RequestContext& context, const Handle& directory, std::string_view name) {
  return Observe<Node>(context, directory, [&](EmbeddedCalls& calls, const Object& found) -> Result<Node> {
    PENSTOCK_TRY(const Entry entry, Search(calls, found, name));
    if (!entry) return std::unexpected(Error::kNoEnt);
    return Node{HandleOf(entry->handle), entry->attributes};
  });
}

fs::Observed<std::string> AdaptedTree::ReadLink(const RequestContext& context, const Handle& symlink) {
  return Observe<std::string>(context, symlink, [](EmbeddedCalls& calls, const Object& found) -> Result<std::string> {
    if (found.attributes.type != FileType::kSymlink) return std::unexpected(Error::kInvalid);
    return calls.ReadLink(found.handle);
  });
}

// ---- objects that come

Result<Node> AdaptedTree::NodeOf(EmbeddedCalls& calls, const penstock_handle& handle) {
  PENSTOCK_TRY(const fs::Attributes attributes, AttributesOf(calls, handle));
  return Node{HandleOf(handle), attributes};
}

fs::Changed<Node> AdaptedTree::Create(const RequestContext& context, const Handle& directory, std::string_view name,
                                      const fs::CreateHow& how) {
  const auto create = [&](EmbeddedCalls& calls, const Object& found) -> Result<Node> {
    if (!found.is_directory()) return std::unexpected(Error::kNotDir);
    PENSTOCK_CHECK(fs::CheckOrdinaryName(name, properties_.name_max, fs::kDotsWhenCreating));
    if (how.mode == fs::CreateMode::kExclusive && fs::SetsTimes(how.attributes)) {
      return std::unexpected(Error::kInvalid);
    }
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      PENSTOCK_TRY(const Entry existing, Search(calls, found, name));
      if (existing) return ReuseFile(calls, *existing, how);
      Result<Node> made = CreateFile(calls, found, name, how);
      if (made || made.error() != Error::kExist) return made;
    }
    return std::unexpected(Error::kDelay);
  };
  return Change<Node>(context, directory, create);
}

Result<Node> AdaptedTree::CreateFile(EmbeddedCalls& calls, const Object& directory, std::string_view name,
                                     const fs::CreateHow& how) {
  if (!files_->ops().create) return std::unexpected(Missing());
  PENSTOCK_CHECK(MayChangeEntries(calls, directory));
  NewAttributes attributes = how.attributes;
  if (how.mode == fs::CreateMode::kExclusive) {
    const TimesOfVerifier times(how.verifier);
    attributes.atime = {SetTime::How::kGiven, times.atime};
    attributes.mtime = {SetTime::How::kGiven, times.mtime};
  }
  PENSTOCK_TRY(const penstock_new_attributes first, FirstAttributes(calls, directory, FileType::kRegular, attributes));
  PENSTOCK_TRY(const penstock_handle made, calls.Create(directory.handle, std::string(name), first));
  return NodeOf(calls, made);
}

Result<Node> AdaptedTree::ReuseFile(EmbeddedCalls& calls, const Object& existing, const fs::CreateHow& how) {
  if (how.mode == fs::CreateMode::kGuarded || existing.attributes.type != FileType::kRegular) {
    return std::unexpected(Error::kExist);
  }
  Node node{HandleOf(existing.handle), existing.attributes, true};
  if (how.mode == fs::CreateMode::kExclusive) {
    if (!TimesOfVerifier(how.verifier).Match(existing.attributes)) return std::unexpected(Error::kExist);
    return node;
  }
  if (how.attributes.size != 0) return node;
  NewAttributes truncate;
  truncate.size = 0;
  PENSTOCK_CHECK(Apply(calls, existing, truncate));
  PENSTOCK_TRY(node.attributes, AttributesOf(calls, existing.handle));
  return node;
}

template <class Function>
fs::Changed<Node> AdaptedTree::Make(const RequestContext& context, const Handle& directory, std::string_view name,
                                    bool can, Function make) {
  return Change<Node>(context, directory, [&](EmbeddedCalls& calls, const Object& found) -> Result<Node> {
    if (!found.is_directory()) return std::unexpected(Error::kNotDir);
    PENSTOCK_CHECK(fs::CheckOrdinaryName(name, properties_.name_max, fs::kDotsWhenCreating));
    PENSTOCK_TRY(const Entry existing, Search(calls, found, name));
    if (existing) return std::unexpected(Error::kExist);
    if (!can) return std::unexpected(Missing());
    PENSTOCK_CHECK(MayChangeEntries(calls, found));
    PENSTOCK_TRY(const penstock_handle made, make(calls, found));
    return NodeOf(calls, made);
  });
}

fs::Changed<Node> AdaptedTree::MakeDirectory(const RequestContext& context, const Handle& directory,
                                             std::string_view name, const NewAttributes& attributes) {
  const auto make = [&](EmbeddedCalls& calls, const Object& in) -> Result<penstock_handle> {
    PENSTOCK_TRY(const penstock_new_attributes first, FirstAttributes(calls, in, FileType::kDirectory, attributes));
    return calls.MakeDirectory(in.handle, std::string(name), first);
  };
  return Make(context, directory, name, files_->ops().make_directory != nullptr, make);
}

fs::Changed<Node> AdaptedTree::MakeSymlink(const RequestContext& context, const Handle& directory,
                                           std::string_view name, std::string_view target,
                                           const NewAttributes& attributes) {
  const auto make = [&](EmbeddedCalls& calls, const Object& in) -> Result<penstock_handle> {
    if (target.empty() || target.find('\0') != target.npos) return std::unexpected(Error::kInvalid);
    if (target.size() >= kLongestTarget) return std::unexpected(Error::kNameTooLong);
    PENSTOCK_TRY(const penstock_new_attributes first, FirstAttributes(calls, in, FileType::kSymlink, attributes));
    return calls.MakeSymlink(in.handle, std::string(name), std::string(target), first);
  };
  return Make(context, directory, name, files_->ops().make_symlink != nullptr, make);
}

fs::Changed<Node> AdaptedTree::MakeNode(const RequestContext& context, const Handle& directory, std::string_view name,
                                        const fs::NodeType& type, const NewAttributes& attributes) {
  const auto make = [&](EmbeddedCalls& calls, const Object& in) -> Result<penstock_handle> {
    const bool is_device = type.type == FileType::kBlock || type.type == FileType::kCharacter;
    if (!is_device && type.type != FileType::kFifo && type.type != FileType::kSocket) {
      return std::unexpected(Error::kBadType);
    }
    if (is_device && checks() && calls.caller().uid != 0) return std::unexpected(Error::kPerm);
    PENSTOCK_TRY(const penstock_new_attributes first, FirstAttributes(calls, in, type.type, attributes));
    return calls.MakeNode(in.handle, std::string(name), type, first);
  };
  return Make(context, directory, name, files_->ops().make_node != nullptr, make);
}

// ---- objects that go

Result<void> AdaptedTree::TakeAway(EmbeddedCalls& calls, const Object& directory, std::string_view name,
                                   bool is_directory) {
  if (!directory.is_directory()) return std::unexpected(Error::kNotDir);
  const Error dots = is_directory ? fs::DotsWhenRemovingDirectory(name) : fs::kDotsWhenRemoving;
  PENSTOCK_CHECK(fs::CheckOrdinaryName(name, properties_.name_max, dots));
  PENSTOCK_TRY(const Entry entry, Search(calls, directory, name));
  if (!entry) return std::unexpected(Error::kNoEnt);
  if (!(is_directory ? files_->ops().remove_directory : files_->ops().remove)) return std::unexpected(Missing());
  PENSTOCK_CHECK(MayTakeAway(calls, directory, *entry));
  if (is_directory) {
    if (!entry->is_directory()) return std::unexpected(Error::kNotDir);
    return calls.RemoveDirectory(directory.handle, std::string(name));
  }
  if (entry->is_directory()) return std::unexpected(Error::kIsDir);
  return calls.Remove(directory.handle, std::string(name));
}

fs::Changed<void> AdaptedTree::Remove(const RequestContext& context, const Handle& directory, std::string_view name) {
  const auto remove = [&](EmbeddedCalls& calls, const Object& found) { return TakeAway(calls, found, name, false); };
  return Change<void>(context, directory, remove);
}

fs::Changed<void> AdaptedTree::RemoveDirectory(const RequestContext& context, const Handle& directory,
                                               std::string_view name) {
  const auto remove = [&](EmbeddedCalls& calls, const Object& found) { return TakeAway(calls, found, name, true); };
  return Change<void>(context, directory, remove);
}

Result<void> AdaptedTree::Move(EmbeddedCalls& calls, const Object& from, std::string_view from_name, const Object& to,
                               std::string_view to_name) {
  if (!from.is_directory() || !to.is_directory()) return std::unexpected(Error::kNotDir);
  PENSTOCK_CHECK(fs::CheckOrdinaryName(from_name, properties_.name_max, fs::kDotsWhenRenaming));
  PENSTOCK_CHECK(fs::CheckOrdinaryName(to_name, properties_.name_max, fs::kDotsWhenRenaming));
  PENSTOCK_TRY(const Entry moved, Search(calls, from, from_name));
  PENSTOCK_TRY(const Entry replaced, Search(calls, to, to_name));
  if (!moved) return std::unexpected(Error::kNoEnt);
  if (!files_->ops().rename) return std::unexpected(Missing());
  PENSTOCK_CHECK(MayTakeAway(calls, from, *moved));
  PENSTOCK_CHECK(MayChangeEntries(calls, to));
  const Handle handle = HandleOf(moved->handle);
  // RFC 1813 §3.3.14: two links of the same file: nothing changes.
  if (replaced && HandleOf(replaced->handle) == handle) return {};
  if (HandleOf(to.handle) == handle) return std::unexpected(Error::kInvalid);
  if (replaced) {
    PENSTOCK_CHECK(MayTakeAway(calls, to, *replaced));
    // RFC 1813 §3.3.14: the target has another type.
    if (replaced->is_directory() != moved->is_directory()) return std::unexpected(Error::kExist);
  }
  Result<void> renamed = calls.Rename(from.handle, std::string(from_name), to.handle, std::string(to_name));
  // The same section: the target is a directory with entries.
  if (!renamed && renamed.error() == Error::kNotEmpty) renamed = std::unexpected(Error::kExist);
  return renamed;
}

fs::Renamed AdaptedTree::Rename(const RequestContext& context, const Handle& from_directory, std::string_view from_name,
                                const Handle& to_directory, std::string_view to_name) {
  EmbeddedCalls calls(*files_, context);
  const bool is_one = from_directory == to_directory;
  const Changes::Change from_under_way(changes_, from_directory);
  std::optional<Changes::Change> to_under_way;
  if (!is_one) to_under_way.emplace(changes_, to_directory);
  const Result<Object> from = Reach(calls, from_directory);
  const Result<Object> to = is_one ? from : Reach(calls, to_directory);
  fs::Renamed renamed;
  if (!from || !to) {
    renamed.result = std::unexpected(from ? to.error() : from.error());
  } else {
    renamed.result = Move(calls, *from, from_name, *to, to_name);
  }
  const auto note = [&](const Result<Object>& directory, const Changes::Change& under_way, fs::WeakCacheData& noted) {
    if (!directory) return;
    if (const auto after = AttributesOf(calls, directory->handle)) noted.after = *after;
    if (under_way.IsAlone()) noted.before = fs::BeforeOf(directory->attributes);
  };
  note(from, from_under_way, renamed.from);
  note(to, is_one ? from_under_way : *to_under_way, renamed.to);
  return renamed;
}

Result<void> AdaptedTree::AddLink(EmbeddedCalls& calls, const Object& file, const Object& directory,
                                  std::string_view name) {
  PENSTOCK_CHECK(fs::CheckOrdinaryName(name, properties_.name_max, fs::kDotsWhenCreating));
  if (file.is_directory()) return std::unexpected(Error::kIsDir);
  // A pinned file without a name cannot get one again.
  if (file.attributes.nlink == 0) return std::unexpected(Error::kStale);
  PENSTOCK_TRY(const Entry existing, Search(calls, directory, name));
  if (existing) return std::unexpected(Error::kExist);
  if (!files_->ops().link) return std::unexpected(Missing());
  PENSTOCK_CHECK(MayChangeEntries(calls, directory));
  if (file.attributes.nlink >= properties_.link_max) return std::unexpected(Error::kTooManyLinks);
  return calls.Link(file.handle, directory.handle, std::string(name));
}

fs::Linked AdaptedTree::Link(const RequestContext& context, const Handle& file, const Handle& directory,
                             std::string_view name) {
  EmbeddedCalls calls(*files_, context);
  const Changes::Change under_way(changes_, directory);
  const Result<Object> linked_file = Reach(calls, file);
  const Result<Object> to = Reach(calls, directory);
  fs::Linked linked;
  if (!linked_file || !to) {
    linked.result = std::unexpected(linked_file ? to.error() : linked_file.error());
  } else {
    linked.result = AddLink(calls, *linked_file, *to, name);
  }
  if (linked_file) {
    if (const auto after = AttributesOf(calls, linked_file->handle)) linked.file = *after;
  }
  if (to) {
    if (const auto after = AttributesOf(calls, to->handle)) linked.directory.after = *after;
    if (under_way.IsAlone()) linked.directory.before = fs::BeforeOf(to->attributes);
  }
  return linked;
}

}  // namespace penstock::library
