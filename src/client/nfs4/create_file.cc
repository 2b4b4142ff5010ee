#include "client/nfs4/create_file.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"
#include "client/nfs4/attributes.h"
#include "client/nfs4/names.h"
#include "nfs_protocol/number_set.h"

namespace penstock::client::v4 {
namespace {

using nfs4::createmode4;

createmode4 ExclusiveMode(const CompoundCaller& caller, bool is_supported) {
  if (!is_supported || caller.keeps_replies()) return createmode4::GUARDED4;
  return caller.dialect().sessions == SessionKind::kSlots ? createmode4::EXCLUSIVE4_1 : createmode4::EXCLUSIVE4;
}

nfs4::createhow4 HowOf(createmode4 mode, const nfs4::fattr4& attributes, const Verifier& verifier) {
  switch (mode) {
    case createmode4::EXCLUSIVE4:
      return nfs4::createhow4(mode, verifier);
    case createmode4::EXCLUSIVE4_1:
      return nfs4::createhow4(mode, nfs4::creatverfattr{verifier, attributes});
    default:
      return nfs4::createhow4(mode, attributes);
  }
}

// Whether the server has kept the verifier in attributes, or has not set the mode, so that SETATTR must follow (RFC
// 8881 §18.16.4, RFC 7530 §16.16.5).
bool NeedsAttributes(createmode4 mode, const nfs4::bitmap4& set) {
  if (mode == createmode4::EXCLUSIVE4) return true;
  using Set = nfs_protocol::NumberSet<uint32_t>;
  return mode == createmode4::EXCLUSIVE4_1 && Set(set) != Set{nfs4::FATTR4_MODE};
}

// Whether a file that existed may be open for something that the program does not need.
bool MayDependOnAccess(const Error& error) {
  constexpr std::array kStatuses = {Status::kAccess, Status::kNotPermitted, Status::kReadOnly,
                                    static_cast<Status>(nfs4::nfsstat4::NFS4ERR_SHARE_DENIED)};
  return error.status && std::ranges::find(kStatuses, *error.status) != kStatuses.end();
}

// Sets the attributes of a file that was created exclusively.
Task<Result<Attributes>> SetFirstAttributes(CompoundCaller& caller, const Handle& file, std::string_view name,
                                            uint32_t mode) {
  const NewAttributes first{.mode = mode, .accessed = ServerTime(), .modified = ServerTime()};
  std::vector<std::byte> octets;
  const nfs4::SETATTR4args set{nfs4::stateid4(), EncodeAttributes(first, octets)};
  const auto build = [&] {
    return std::tuple(nfs4::PUTFH4args{file.octets()}, set, nfs4::GETATTR4args{FileAttributes()});
  };
  auto reply = co_await caller.Call(build, name);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  auto decoded = DecodeAttributes(std::get<2>(reply->results).resok4().obj_attributes);
  if (!decoded) co_return std::unexpected(MalformedAttributes(name));
  co_return *std::move(decoded);
}

Task<Result<std::shared_ptr<OpenFile>>> Create(FileOwner& mount, CompleteDirectories::Creation& creation, uint32_t mode,
                                               CreateMode how, Access access, bool exclusive_is_supported) {
  CompoundCaller& caller = mount.caller();
  const Handle& directory = creation.directory();
  const std::string_view name = creation.name();
  StateOwner owner = mount.NewOwner({});
  NewAttributes first{.mode = mode};
  if (how == CreateMode::kTruncate) first.size = 0;
  std::vector<std::byte> octets;
  const nfs4::fattr4 attributes = EncodeAttributes(first, octets);
  Verifier verifier;
  FillRandomly(verifier);
  const Delegations::Asking asking(mount.delegations());
  uint64_t epoch = 0;
  createmode4 method = createmode4::UNCHECKED4;
  bool created = false;
  const auto build = [&] {
    epoch = caller.epoch();
    method = createmode4::UNCHECKED4;
    if (how == CreateMode::kExclusive && !created) method = ExclusiveMode(caller, exclusive_is_supported);
    nfs4::OPEN4args open = MakeOpen(caller, owner, access, asking.wanted());
    open.openhow = nfs4::openflag4(nfs4::opentype4::OPEN4_CREATE, HowOf(method, attributes, verifier));
    open.claim = nfs4::open_claim4(nfs4::open_claim_type4::CLAIM_NULL, nfs4::component4(name));
    return std::tuple(nfs4::PUTFH4args{directory.octets()}, open, GetHandle(), nfs4::GETATTR4args{FileAttributes()});
  };
  const auto observe = [&](const auto& reply) {
    const auto status = StatusOf(reply, 1);
    owner.HandleStatus(status);
    // If the server has restarted meanwhile, the OPEN is sent again. GUARDED4 would then find the client's own file.
    created = created || (method == createmode4::GUARDED4 && status == nfs4::nfsstat4::NFS4_OK);
  };
  auto reply = co_await caller.Call(build, name, {}, observe);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs4::OPEN4resok& opened = std::get<1>(reply->results).resok4();
  creation.HandleMade(opened.cinfo);
  PENSTOCK_CO_TRY(Node node, NodeOf(std::get<2>(reply->results), std::get<3>(reply->results), directory, name));
  std::optional<Error> failure;
  if (NeedsAttributes(method, opened.attrset)) {
    auto set = co_await SetFirstAttributes(caller, node.handle, name, mode);
    if (set) {
      node.attributes = *std::move(set);
    } else {
      failure = std::move(set).error();
    }
  }
  const Attributes made = node.attributes;
  auto file = std::make_shared<OpenFile>(mount, std::move(node), name, access, owner);
  PENSTOCK_CO_CHECK(co_await file->HandleOpened(asking, opened, epoch, file->node().handle, made));
  // The creator may do everything once, whatever the mode says. Later opens are for the server to decide.
  if ((made.mode & 0600) != 0600) mount.delegations().HandlePermissionsChanged(file->node().handle);
  if (failure) {
    (void)co_await file->Close();
    co_return std::unexpected(*std::move(failure));
  }
  co_return file;
}

}  // namespace

Task<Result<std::shared_ptr<OpenFile>>> CreateFile(FileOwner& mount, CompleteDirectories::Creation& creation,
                                                   uint32_t mode, CreateMode how, Access access) {
  // The right to write, which a truncation needs, and the right to read, so that a delegation of the file admits later
  // opens. The creator of a file has both. A file that existed may deny one of them.
  bool is_supported = true;
  auto created = co_await Create(mount, creation, mode, how, Access::kBoth, is_supported);
  if (!created && how == CreateMode::kExclusive && created.error().status == Status::kNotSupported) {
    is_supported = false;
    created = co_await Create(mount, creation, mode, how, Access::kBoth, is_supported);
  }
  const bool needs_less = access == Access::kWrite || (access == Access::kRead && how != CreateMode::kTruncate);
  if (!created && how != CreateMode::kExclusive && needs_less && MayDependOnAccess(created.error())) {
    created = co_await Create(mount, creation, mode, how, access, is_supported);
  }
  if (created) (*created)->set_needed_access(access);
  co_return created;
}

}  // namespace penstock::client::v4
