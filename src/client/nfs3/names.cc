#include "client/nfs3/names.h"

#include "base/random.h"
#include "client/nfs3/convert.h"

namespace penstock::client::v3 {
namespace {

nfs3::diropargs3 Where(const Handle& directory, std::string_view name) { return {ToHandle3(directory), name}; }

// Calls a procedure and discards its results.
template <class Procedure>
Task<Result<void>> Do(const Caller& caller, const typename Procedure::Arguments& arguments, std::string_view what) {
  auto reply = co_await Call<Procedure>(caller, arguments, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return Result<void>();
}

// The node that a call has made under `name`. Looks it up if the reply lacks its handle or attributes, which RFC 1813
// §3.3.8 allows.
Task<Result<Node>> MadeNode(const Caller& caller, const nfs3::post_op_fh3& handle, const nfs3::post_op_attr& attributes,
                            const Handle& directory, std::string_view name) {
  if (!handle || !attributes) co_return co_await Lookup(caller, directory, name);
  co_return Node{FromHandle3(*handle), AttributesOf(*attributes), directory, std::string(name)};
}

Task<Result<Node>> Create(const Caller& caller, const Handle& directory, std::string_view name,
                          const nfs3::createhow3& how) {
  const nfs3::CREATE3args arguments{Where(directory, name), how};
  auto reply = co_await Call<nfs3::NFSPROC3_CREATE>(caller, arguments, name);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs3::CREATE3resok& made = reply->results.resok();
  co_return co_await MadeNode(caller, made.obj, made.obj_attributes, directory, name);
}

// Sets the attributes of a file that was created exclusively: until then the server may keep the verifier in them.
Task<Result<Attributes>> SetFirstAttributes(const Caller& caller, const Handle& file, std::string_view name,
                                            uint32_t mode) {
  const NewAttributes first{.mode = mode, .accessed = ServerTime(), .modified = ServerTime()};
  nfs3::SETATTR3args arguments;
  arguments.object = ToHandle3(file);
  PENSTOCK_CO_TRY(arguments.new_attributes, ToSattr3(first, name));
  auto reply = co_await Call<nfs3::NFSPROC3_SETATTR>(caller, arguments, name);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs3::post_op_attr& after = reply->results.resok().obj_wcc.after;
  if (after) co_return AttributesOf(*after);
  co_return co_await GetAttributes(caller, file, name);
}

}  // namespace

Task<Result<Node>> Lookup(const Caller& caller, const Handle& directory, std::string_view name) {
  const nfs3::LOOKUP3args arguments{Where(directory, name)};
  auto reply = co_await Call<nfs3::NFSPROC3_LOOKUP>(caller, arguments, name);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs3::LOOKUP3resok& found = reply->results.resok();
  Node node{FromHandle3(found.object), {}, directory, std::string(name)};
  if (found.obj_attributes) {
    node.attributes = AttributesOf(*found.obj_attributes);
  } else {
    PENSTOCK_CO_TRY(node.attributes, co_await GetAttributes(caller, node.handle, name));
  }
  co_return node;
}

Task<Result<Attributes>> GetAttributes(const Caller& caller, const Handle& object, std::string_view what) {
  const nfs3::GETATTR3args arguments{ToHandle3(object)};
  auto reply = co_await Call<nfs3::NFSPROC3_GETATTR>(caller, arguments, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return AttributesOf(reply->results.resok().obj_attributes);
}

Task<Result<void>> SetAttributes(const Caller& caller, const Handle& object, std::string_view what,
                                 const NewAttributes& attributes) {
  nfs3::SETATTR3args arguments;
  arguments.object = ToHandle3(object);
  PENSTOCK_CO_TRY(arguments.new_attributes, ToSattr3(attributes, what));
  co_return co_await Do<nfs3::NFSPROC3_SETATTR>(caller, arguments, what);
}

Task<Result<std::string>> ReadLink(const Caller& caller, const Handle& symlink, std::string_view what) {
  const nfs3::READLINK3args arguments{ToHandle3(symlink)};
  auto reply = co_await Call<nfs3::NFSPROC3_READLINK>(caller, arguments, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return std::string(reply->results.resok().data.text());
}

Task<Result<Space>> GetSpace(const Caller& caller, const Handle& object, std::string_view what) {
  const nfs3::FSSTAT3args arguments{ToHandle3(object)};
  auto reply = co_await Call<nfs3::NFSPROC3_FSSTAT>(caller, arguments, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs3::PATHCONF3args names{arguments.fsroot};
  auto limits = co_await Call<nfs3::NFSPROC3_PATHCONF>(caller, names, what);
  if (!limits) co_return std::unexpected(std::move(limits).error());
  const nfs3::FSSTAT3resok& room = reply->results.resok();
  co_return Space{.total = room.tbytes,
                  .free = room.fbytes,
                  .available = room.abytes,
                  .total_files = room.tfiles,
                  .free_files = room.ffiles,
                  .available_files = room.afiles,
                  .longest_name = limits->results.resok().name_max};
}

Task<Result<Node>> CreateFile(const Caller& caller, const Handle& directory, std::string_view name, uint32_t mode,
                              CreateMode how) {
  nfs3::sattr3 attributes;
  attributes.mode = mode;
  if (how == CreateMode::kExclusive) {
    nfs3::createverf3 verifier;
    FillRandomly(verifier);
    const nfs3::createhow3 exclusive(nfs3::createmode3::EXCLUSIVE, verifier);
    Result<Node> node = co_await Create(caller, directory, name, exclusive);
    if (node) {
      PENSTOCK_CO_TRY(node->attributes, co_await SetFirstAttributes(caller, node->handle, name, mode));
      co_return node;
    }
    if (node.error().status != Status::kNotSupported) co_return node;
    const nfs3::createhow3 guarded(nfs3::createmode3::GUARDED, attributes);
    co_return co_await Create(caller, directory, name, guarded);
  }
  if (how == CreateMode::kTruncate) attributes.size = 0;
  const nfs3::createhow3 unchecked(nfs3::createmode3::UNCHECKED, attributes);
  PENSTOCK_CO_TRY(const Node node, co_await Create(caller, directory, name, unchecked));
  // A server may answer with the object of another type that has the name.
  PENSTOCK_CO_CHECK(CheckRegular(node, name));
  co_return node;
}

Task<Result<Node>> MakeDirectory(const Caller& caller, const Handle& directory, std::string_view name, uint32_t mode) {
  nfs3::MKDIR3args arguments;
  arguments.where = Where(directory, name);
  arguments.attributes.mode = mode;
  auto reply = co_await Call<nfs3::NFSPROC3_MKDIR>(caller, arguments, name);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs3::MKDIR3resok& made = reply->results.resok();
  co_return co_await MadeNode(caller, made.obj, made.obj_attributes, directory, name);
}

Task<Result<Node>> MakeSymlink(const Caller& caller, const Handle& directory, std::string_view name,
                               std::string_view target) {
  nfs3::SYMLINK3args arguments;
  arguments.where = Where(directory, name);
  arguments.symlink.symlink_data = xdr::Payload<xdr::kUnbounded>::Borrowed(AsBytes(target));
  auto reply = co_await Call<nfs3::NFSPROC3_SYMLINK>(caller, arguments, name);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs3::SYMLINK3resok& made = reply->results.resok();
  co_return co_await MadeNode(caller, made.obj, made.obj_attributes, directory, name);
}

Task<Result<Node>> MakeNode(const Caller& caller, const Handle& directory, std::string_view name, FileType type,
                            uint32_t mode, nfs3::specdata3 device) {
  nfs3::sattr3 attributes;
  attributes.mode = mode;
  nfs3::MKNOD3args arguments;
  arguments.where = Where(directory, name);
  switch (type) {
    case FileType::kFifo:
      arguments.what = nfs3::mknoddata3(nfs3::ftype3::NF3FIFO, attributes);
      break;
    case FileType::kSocket:
      arguments.what = nfs3::mknoddata3(nfs3::ftype3::NF3SOCK, attributes);
      break;
    case FileType::kCharacterDevice:
      arguments.what = nfs3::mknoddata3(nfs3::ftype3::NF3CHR, nfs3::devicedata3{attributes, device});
      break;
    case FileType::kBlockDevice:
      arguments.what = nfs3::mknoddata3(nfs3::ftype3::NF3BLK, nfs3::devicedata3{attributes, device});
      break;
    default:
      co_return std::unexpected(ErrorOf(Status::kInvalid, name));
  }
  auto reply = co_await Call<nfs3::NFSPROC3_MKNOD>(caller, arguments, name);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs3::MKNOD3resok& made = reply->results.resok();
  co_return co_await MadeNode(caller, made.obj, made.obj_attributes, directory, name);
}

Task<Result<void>> Link(const Caller& caller, const Handle& file, const Handle& directory, std::string_view name) {
  const nfs3::LINK3args arguments{ToHandle3(file), Where(directory, name)};
  co_return co_await Do<nfs3::NFSPROC3_LINK>(caller, arguments, name);
}

Task<Result<void>> Rename(const Caller& caller, const Handle& from_directory, std::string_view from,
                          const Handle& to_directory, std::string_view to) {
  const nfs3::RENAME3args arguments{Where(from_directory, from), Where(to_directory, to)};
  co_return co_await Do<nfs3::NFSPROC3_RENAME>(caller, arguments, from);
}

Task<Result<void>> Remove(const Caller& caller, const Handle& directory, std::string_view name) {
  const nfs3::REMOVE3args arguments{Where(directory, name)};
  co_return co_await Do<nfs3::NFSPROC3_REMOVE>(caller, arguments, name);
}

Task<Result<void>> RemoveDirectory(const Caller& caller, const Handle& directory, std::string_view name) {
  const nfs3::RMDIR3args arguments{Where(directory, name)};
  co_return co_await Do<nfs3::NFSPROC3_RMDIR>(caller, arguments, name);
}

Task<Result<Listing>> ListFrom(const Caller& caller, const Handle& directory, std::string_view what, ListPosition from,
                               ListContent content, uint32_t most_octets) {
  const nfs3::READDIRPLUS3args arguments{ToHandle3(directory), from.cookie, from.verifier, most_octets, most_octets};
  auto reply = co_await Call<nfs3::NFSPROC3_READDIRPLUS>(caller, arguments, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs3::READDIRPLUS3resok& listed = reply->results.resok();
  Listing listing{.entries = {}, .next = {from.cookie, listed.cookieverf}, .ends = listed.reply.eof};
  for (const nfs3::entryplus3& found : listed.reply.entries) {
    listing.next.cookie = found.cookie;
    const std::string_view name = found.name;
    if (name == "." || name == "..") continue;
    Entry entry{.name = std::string(name), .attributes = std::nullopt, .cookie = found.cookie};
    if (found.name_attributes) entry.attributes = AttributesOf(*found.name_attributes);
    if (found.name_handle && content == ListContent::kAttributesAndHandles) {
      entry.handle = FromHandle3(*found.name_handle);
    }
    listing.entries.push_back(std::move(entry));
  }
  co_return listing;
}

Task<Result<client::Mount::Granted>> CheckAccess(const Caller& caller, const Handle& object, std::string_view what,
                                                 uint32_t rights) {
  const nfs3::ACCESS3args arguments{ToHandle3(object), rights};
  auto reply = co_await Call<nfs3::NFSPROC3_ACCESS>(caller, arguments, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs3::ACCESS3resok& access = reply->results.resok();
  client::Mount::Granted granted{.rights = access.access & rights};
  if (access.obj_attributes) granted.attributes = AttributesOf(*access.obj_attributes);
  co_return granted;
}

}  // namespace penstock::client::v3
