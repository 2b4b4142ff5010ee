#include "client/nfs4/names.h"

#include <fmt/core.h>

#include <cerrno>

#include "client/nfs4/attributes.h"

namespace penstock::client::v4 {
namespace {

using nfs4::nfsstat4;

// Executes a COMPOUND and discards its results.
template <class Build>
Task<Result<void>> Do(CompoundCaller& caller, Build build, std::string_view what) {
  auto reply = co_await caller.Call(std::move(build), what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return Result<void>();
}

// Returns the node that the operation `find` leads to from `directory`.
template <class Find>
Task<Result<Node>> FindNode(CompoundCaller& caller, const Handle& directory, Find find, std::string_view name) {
  auto reply = co_await caller.Call(
      [&] { return std::tuple(nfs4::PUTFH4args{directory}, find, GetHandle(), nfs4::GETATTR4args{FileAttributes()}); },
      name);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return NodeOf(std::get<2>(reply->results), std::get<3>(reply->results), directory, name);
}

// Returns the `wanted` attributes of an object, as `decode` finds them in the reply.
template <class T, class Decode>
Task<Result<T>> GetAttributesBy(CompoundCaller& caller, const Handle& object, std::string_view what,
                                nfs4::bitmap4 wanted, Decode decode) {
  auto reply =
      co_await caller.Call([&] { return std::tuple(nfs4::PUTFH4args{object}, nfs4::GETATTR4args{wanted}); }, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  std::optional<T> decoded = decode(std::get<1>(reply->results).resok4().obj_attributes);
  if (!decoded) co_return std::unexpected(MalformedAttributes(what));
  co_return *std::move(decoded);
}

// Creates an object that is not a regular file (RFC 8881 §18.4).
Task<Result<Node>> Create(CompoundCaller& caller, const Handle& directory, const nfs4::createtype4& type,
                          std::string_view name, const NewAttributes& attributes) {
  std::vector<std::byte> octets;
  const nfs4::CREATE4args create{type, nfs4::component4(name), EncodeAttributes(attributes, octets)};
  co_return co_await FindNode(caller, directory, create, name);
}

// REMOVE removes directories and other objects alike (RFC 8881 §18.25). `Check` compares the type of the object before.
template <class Check>
Task<Result<void>> RemoveIf(CompoundCaller& caller, const Handle& directory, std::string_view name, nfsstat4 refusal,
                            Status error) {
  std::vector<std::byte> octets;
  const Check check{EncodeType(nfs4::nfs_ftype4::NF4DIR, octets)};
  Result<void> removed = co_await Do(
      caller,
      [&] {
        return std::tuple(nfs4::PUTFH4args{directory}, nfs4::LOOKUP4args{name}, check, nfs4::PUTFH4args{directory},
                          nfs4::REMOVE4args{name});
      },
      name);
  if (!removed && removed.error().status == static_cast<Status>(refusal)) {
    co_return std::unexpected(client::ErrorOf(error, name));
  }
  co_return removed;
}

}  // namespace

Error MalformedAttributes(std::string_view what) {
  return {fmt::format("{}: cannot decode the server's attributes", what), std::nullopt, EPROTO};
}

Result<Node> NodeOf(const nfs4::GETFH4res& handle, const nfs4::GETATTR4res& attributes, const Handle& directory,
                    std::string_view name) {
  const auto decoded = DecodeAttributes(attributes.resok4().obj_attributes);
  if (!decoded) return std::unexpected(MalformedAttributes(name));
  return Node{handle.resok4().object, *decoded, directory, std::string(name)};
}

// RFC 8881 §18.13.3: LOOKUP does not accept "." and "..".
Task<Result<Node>> Lookup(CompoundCaller& caller, const Handle& directory, std::string_view name) {
  if (name == "..") return FindNode(caller, directory, LookUpParent(), name);
  if (name == ".") return FindNode(caller, directory, nfs4::PUTFH4args{directory}, name);
  return FindNode(caller, directory, nfs4::LOOKUP4args{name}, name);
}

// The root of an absent file system has no filehandle (RFC 8881 §11.3), so the client looks it up again.
Task<Result<std::vector<Location>>> GetLocations(CompoundCaller& caller, const Handle& directory,
                                                 std::string_view name) {
  auto reply = co_await caller.Call(
      [&] {
        return std::tuple(nfs4::PUTFH4args{directory}, nfs4::LOOKUP4args{name},
                          nfs4::GETATTR4args{LocationsAttribute()});
      },
      name);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  auto decoded = DecodeLocations(std::get<2>(reply->results).resok4().obj_attributes);
  if (!decoded) co_return std::unexpected(MalformedAttributes(name));
  co_return *std::move(decoded);
}

// GETATTR of this attribute is allowed in an absent file system (RFC 8881 §11.4.1, RFC 7530 §8.3.1).
Task<Result<std::vector<Location>>> GetLocationsOf(CompoundCaller& caller, const Handle& object,
                                                   std::string_view what) {
  const auto decode = [](const nfs4::fattr4& given) { return DecodeLocations(given); };
  return GetAttributesBy<std::vector<Location>>(caller, object, what, LocationsAttribute(), decode);
}

Task<Result<Attributes>> GetAttributes(CompoundCaller& caller, const Handle& object, std::string_view what) {
  const auto decode = [](const nfs4::fattr4& given) { return DecodeAttributes(given); };
  return GetAttributesBy<Attributes>(caller, object, what, FileAttributes(), decode);
}

// RFC 8881 §18.30: uses the anonymous stateid also for a change of size, so that the server respects share denials.
Task<Result<void>> SetAttributes(CompoundCaller& caller, const Handle& object, std::string_view what,
                                 const NewAttributes& attributes) {
  std::vector<std::byte> octets;
  const nfs4::SETATTR4args set{nfs4::stateid4(), EncodeAttributes(attributes, octets)};
  if (octets.empty()) co_return Result<void>();  // tshark complains about a SETATTR without attributes
  co_return co_await Do(caller, [&] { return std::tuple(nfs4::PUTFH4args{object}, set); }, what);
}

Task<Result<std::string>> ReadLink(CompoundCaller& caller, const Handle& symlink, std::string_view what) {
  auto reply = co_await caller.Call([&] { return std::tuple(nfs4::PUTFH4args{symlink}, ReadLinkText()); }, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return std::string(std::get<1>(reply->results).resok4().link.text());
}

Task<Result<Space>> GetSpace(CompoundCaller& caller, const Handle& object, std::string_view what) {
  const auto decode = [](const nfs4::fattr4& given) { return DecodeSpace(given); };
  return GetAttributesBy<Space>(caller, object, what, SpaceAttributes(), decode);
}

Task<Result<Node>> MakeDirectory(CompoundCaller& caller, const Handle& directory, std::string_view name,
                                 uint32_t mode) {
  const nfs4::createtype4 type(nfs4::nfs_ftype4::NF4DIR);
  const NewAttributes attributes{.mode = mode};
  co_return co_await Create(caller, directory, type, name, attributes);
}

Task<Result<Node>> MakeSymlink(CompoundCaller& caller, const Handle& directory, std::string_view name,
                               std::string_view target) {
  const nfs4::createtype4 type(nfs4::nfs_ftype4::NF4LNK, nfs4::linktext4::Borrowed(AsBytes(target)));
  // The usual mode of links. tshark complains about a CREATE without attributes.
  const NewAttributes attributes{.mode = 0777};
  co_return co_await Create(caller, directory, type, name, attributes);
}

Task<Result<Node>> MakeNode(CompoundCaller& caller, const Handle& directory, std::string_view name, FileType type,
                            uint32_t mode, nfs4::specdata4 device) {
  nfs4::createtype4 created;
  switch (type) {
    case FileType::kFifo:
      created = nfs4::createtype4(nfs4::nfs_ftype4::NF4FIFO);
      break;
    case FileType::kSocket:
      created = nfs4::createtype4(nfs4::nfs_ftype4::NF4SOCK);
      break;
    case FileType::kCharacterDevice:
      created = nfs4::createtype4(nfs4::nfs_ftype4::NF4CHR, device);
      break;
    case FileType::kBlockDevice:
      created = nfs4::createtype4(nfs4::nfs_ftype4::NF4BLK, device);
      break;
    default:
      co_return std::unexpected(client::ErrorOf(Status::kInvalid, name));
  }
  const NewAttributes attributes{.mode = mode};
  co_return co_await Create(caller, directory, created, name, attributes);
}

Task<Result<void>> Link(CompoundCaller& caller, const Handle& file, const Handle& directory, std::string_view name) {
  return Do(
      caller,
      [&file, &directory, name] {
        return std::tuple(nfs4::PUTFH4args{file}, SaveHandle(), nfs4::PUTFH4args{directory}, nfs4::LINK4args{name});
      },
      name);
}

Task<Result<void>> Rename(CompoundCaller& caller, const Handle& from_directory, std::string_view from,
                          const Handle& to_directory, std::string_view to) {
  return Do(
      caller,
      [&from_directory, &to_directory, from, to] {
        return std::tuple(nfs4::PUTFH4args{from_directory}, SaveHandle(), nfs4::PUTFH4args{to_directory},
                          nfs4::RENAME4args{from, to});
      },
      from);
}

Task<Result<void>> Remove(CompoundCaller& caller, const Handle& directory, std::string_view name) {
  return RemoveIf<nfs4::NVERIFY4args>(caller, directory, name, nfsstat4::NFS4ERR_SAME, Status::kIsDirectory);
}

Task<Result<void>> RemoveDirectory(CompoundCaller& caller, const Handle& directory, std::string_view name) {
  return RemoveIf<nfs4::VERIFY4args>(caller, directory, name, nfsstat4::NFS4ERR_NOT_SAME, Status::kNotDirectory);
}

Task<Result<Listing>> ListFrom(CompoundCaller& caller, const Handle& directory, std::string_view what,
                               ListPosition from, ListContent content, uint32_t most_octets) {
  const nfs4::READDIR4args arguments{.cookie = from.cookie,
                                     .cookieverf = from.verifier,
                                     .dircount = most_octets,
                                     .maxcount = most_octets,
                                     .attr_request = EntryAttributes(content)};
  auto reply = co_await caller.Call([&] { return std::tuple(nfs4::PUTFH4args{directory}, arguments); }, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs4::READDIR4resok& listed = std::get<1>(reply->results).resok4();
  Listing listing{.entries = {}, .next = {from.cookie, listed.cookieverf}, .ends = listed.reply.eof};
  for (const nfs4::entry4& found : listed.reply.entries) {
    listing.next.cookie = found.cookie;
    Entry entry{.name = std::string(found.name), .attributes = std::nullopt, .cookie = found.cookie};
    entry.attributes = DecodeAttributes(found.attrs, &entry.handle);
    entry.is_referral = !entry.attributes && DecodeError(found.attrs) == nfsstat4::NFS4ERR_MOVED;
    listing.entries.push_back(std::move(entry));
  }
  co_return listing;
}

Task<Result<ListedNames>> ListNames(CompoundCaller& caller, const Handle& directory, std::string_view what,
                                    uint32_t most_octets) {
  const nfs4::READDIR4args arguments{
      .cookie = 0, .cookieverf = {}, .dircount = most_octets, .maxcount = most_octets, .attr_request = {}};
  auto reply = co_await caller.Call(
      [&] { return std::tuple(nfs4::PUTFH4args{directory}, nfs4::GETATTR4args{FileAttributes()}, arguments); }, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const auto attributes = DecodeAttributes(std::get<1>(reply->results).resok4().obj_attributes);
  if (!attributes) co_return std::unexpected(MalformedAttributes(what));
  const nfs4::READDIR4resok& listed = std::get<2>(reply->results).resok4();
  ListedNames names{.change = attributes->change, .ends = listed.reply.eof};
  for (const nfs4::entry4& found : listed.reply.entries) names.names.emplace_back(found.name);
  co_return names;
}

Task<Result<client::Mount::Granted>> CheckAccess(CompoundCaller& caller, const Handle& object, std::string_view what,
                                                 uint32_t rights) {
  auto reply =
      co_await caller.Call([&] { return std::tuple(nfs4::PUTFH4args{object}, nfs4::ACCESS4args{rights}); }, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return client::Mount::Granted{.rights = std::get<1>(reply->results).resok4().access & rights};
}

}  // namespace penstock::client::v4
