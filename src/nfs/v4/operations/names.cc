// CREATE, REMOVE, RENAME, LINK.
#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/engine/namespace.h"
#include "nfs/v4/operations/given_attributes.h"
#include "nfs/v4/operations/io_state.h"
#include "nfs/v4/operations/operations.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

// A name in a directory that an operation makes or removes.
struct Target {
  const Object& directory;
  std::string_view name;
};

// Checks the name and the directory of an operation that makes or removes a name: the name must be valid, and both must
// be changeable.
Task<nfsstat4> CheckTarget(Compound& compound, Target target) {
  if (const nfsstat4 status = CheckName(target.name); status != NFS4_OK) co_return status;
  if (target.directory.read_only()) co_return NFS4ERR_ROFS;
  // The entry belongs to another export, so clients may not change it.
  const bool is_junction = co_await compound.names->IsJunction(target.directory, target.name);
  co_return is_junction ? NFS4ERR_ACCESS : NFS4_OK;
}

fs::NodeType NodeTypeOf(const createtype4& what) {
  fs::NodeType node;
  switch (what.type()) {
    case NF4BLK:
      node.type = fs::FileType::kBlock;
      break;
    case NF4CHR:
      node.type = fs::FileType::kCharacter;
      break;
    case NF4SOCK:
      node.type = fs::FileType::kSocket;
      break;
    default:
      node.type = fs::FileType::kFifo;
      break;
  }
  if (what.is_devdata()) node.device = {what.devdata().specdata1, what.devdata().specdata2};
  return node;
}

bool CanBeCreated(const createtype4& what) {
  switch (what.type()) {
    case NF4LNK:
    case NF4BLK:
    case NF4CHR:
    case NF4DIR:
    case NF4SOCK:
    case NF4FIFO:
      return true;
    default:
      return false;
  }
}

Task<fs::Changed<fs::Node>> Make(Target at, const createtype4& what, const fs::NewAttributes& values) {
  fs::FileSystem& file_system = at.directory.file_system();
  const fs::RequestContext& context = at.directory.context();
  const fs::Handle& directory = at.directory.object();
  if (what.type() == NF4DIR) return file_system.MakeDirectory(context, directory, at.name, values);
  if (what.is_linkdata()) {
    return file_system.MakeSymlink(context, directory, at.name, what.linkdata().text(), values);
  }
  return [](Target to, fs::NodeType type, fs::NewAttributes attributes) -> Task<fs::Changed<fs::Node>> {
    co_return co_await to.directory.file_system().MakeNode(to.directory.context(), to.directory.object(), to.name, type,
                                                           attributes);
  }(at, NodeTypeOf(what), values);
}

// Recalls the delegations on the object with this name, if it exists. Returns the object, or the error of looking it
// up.
Task<Result<fs::Node, nfsstat4>> RecallNamed(Compound& compound, Target target) {
  const Object& directory = target.directory;
  const auto found = co_await directory.file_system().Lookup(directory.context(), directory.object(), target.name);
  if (!found.result) co_return std::unexpected(StatusInDirectory(found.result.error(), found.attributes));
  const nfsstat4 status = co_await RecallBeforeChange(compound, directory.in().Name(found.result->handle));
  if (status != NFS4_OK) co_return std::unexpected(status);
  co_return *found.result;
}

}  // namespace

// RFC 8881 §18.4. OPEN makes regular files.
Task<CREATE4res> Create(Compound& compound, const CREATE4args& arguments) {
  if (!CanBeCreated(arguments.objtype)) co_return CREATE4res(NFS4ERR_BADTYPE);
  const Object directory = *compound.current;
  const Target at{directory, arguments.objname};
  if (const nfsstat4 status = co_await CheckTarget(compound, at); status != NFS4_OK) co_return CREATE4res(status);
  auto given = co_await ReadAttributes(compound, arguments.createattrs, AttributeUse::kCreate);
  if (!given) co_return CREATE4res(given.error());
  const bool empty_link = arguments.objtype.is_linkdata() && arguments.objtype.linkdata().empty();
  if (given->values.size || empty_link) co_return CREATE4res(NFS4ERR_INVAL);

  // Only a text that is too long comes in several pieces.
  if (arguments.objtype.is_linkdata() && arguments.objtype.linkdata().data().arriving()) {
    co_return CREATE4res(NFS4ERR_NAMETOOLONG);
  }
  const auto changed = co_await Make(at, arguments.objtype, given->values);
  if (!changed.result) co_return CREATE4res(StatusInDirectory(changed.result.error(), changed.object.after));
  // The object exists now, with or without its access control list: attrset reports it.
  co_await SetAcl(directory, changed.result->handle, arguments.objtype.type() == NF4DIR, *given);
  const nfsstat4 status = compound.MoveTo(directory.in(), changed.result->handle);
  if (status != NFS4_OK) co_return CREATE4res(status);
  co_return CREATE4res(NFS4_OK, CREATE4resok{.cinfo = ToChangeInfo(changed.object), .attrset = given->set.ToBitmap()});
}

// RFC 8881 §18.25. An open file stays usable by its filehandle (OPEN4_RESULT_PRESERVE_UNLINKED).
Task<REMOVE4res> Remove(Compound& compound, const REMOVE4args& arguments) {
  const Object& directory = *compound.current;
  const Target target{directory, arguments.target};
  if (const nfsstat4 status = co_await CheckTarget(compound, target); status != NFS4_OK) co_return REMOVE4res(status);
  const auto found = co_await RecallNamed(compound, target);
  if (!found) co_return REMOVE4res(found.error());

  fs::FileSystem& file_system = directory.file_system();
  const bool is_directory = found->attributes.type == fs::FileType::kDirectory;
  fs::Changed<void> changed;
  if (is_directory) {
    changed = co_await file_system.RemoveDirectory(directory.context(), directory.object(), target.name);
  } else {
    changed = co_await file_system.Remove(directory.context(), directory.object(), target.name);
  }
  if (!changed.result) co_return REMOVE4res(StatusInDirectory(changed.result.error(), changed.object.after));
  co_return REMOVE4res(NFS4_OK, REMOVE4resok{.cinfo = ToChangeInfo(changed.object)});
}

// RFC 8881 §18.26
Task<RENAME4res> Rename(Compound& compound, const RENAME4args& arguments) {
  const Object& from = *compound.saved;
  const Object& to = *compound.current;
  const Target source{from, arguments.oldname};
  const Target target{to, arguments.newname};
  if (&from.in() != &to.in()) co_return RENAME4res(NFS4ERR_XDEV);
  if (const nfsstat4 status = co_await CheckTarget(compound, source); status != NFS4_OK) co_return RENAME4res(status);
  if (const nfsstat4 status = co_await CheckTarget(compound, target); status != NFS4_OK) co_return RENAME4res(status);
  const auto found = co_await RecallNamed(compound, source);
  if (!found) co_return RENAME4res(found.error());
  const auto replaced = co_await RecallNamed(compound, target);
  if (!replaced && replaced.error() != NFS4ERR_NOENT) co_return RENAME4res(replaced.error());

  const auto renamed =
      co_await to.file_system().Rename(to.context(), from.object(), source.name, to.object(), target.name);
  if (!renamed.result) co_return RENAME4res(ToStatus(renamed.result.error()));
  co_return RENAME4res(
      NFS4_OK, RENAME4resok{.source_cinfo = ToChangeInfo(renamed.from), .target_cinfo = ToChangeInfo(renamed.to)});
}

// RFC 8881 §18.9
Task<LINK4res> Link(Compound& compound, const LINK4args& arguments) {
  const Object& file = *compound.saved;
  const Object& directory = *compound.current;
  if (&file.in() != &directory.in()) co_return LINK4res(NFS4ERR_XDEV);
  const Target target{directory, arguments.newname};
  if (const nfsstat4 status = co_await CheckTarget(compound, target); status != NFS4_OK) co_return LINK4res(status);
  if (const nfsstat4 status = co_await RecallBeforeChange(compound, file.name()); status != NFS4_OK) {
    co_return LINK4res(status);
  }
  const auto linked =
      co_await directory.file_system().Link(directory.context(), file.object(), directory.object(), target.name);
  if (!linked.result) co_return LINK4res(StatusInDirectory(linked.result.error(), linked.directory.after));
  co_return LINK4res(NFS4_OK, LINK4resok{.cinfo = ToChangeInfo(linked.directory)});
}

}  // namespace penstock::nfs::v4
