// The operations that the client calls: their numbers, results and largest results. A COMPOUND is a std::tuple of the
// arguments of its operations.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>
#include <vector>

#include "nfs_protocol/number_set.h"
#include "nfs_protocol/path_limit.h"
#include "protocol/nfs4.h"
#include "protocol/nfs4_sess01.h"
#include "rpc/transport.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::client::v4 {

// Operations without arguments.
struct PutRootHandle {};
struct GetHandle {};
struct ReadLinkText {};
struct LookUpParent {};
struct SaveHandle {};
struct DestroyBoundSession {};

template <nfs4::nfs_opnum4 number, class R>
struct OperationIs {
  static constexpr nfs4::nfs_opnum4 kNumber = number;
  using Results = R;
};

template <class Arguments>
struct Operation;
template <>
struct Operation<PutRootHandle> : OperationIs<nfs4::OP_PUTROOTFH, nfs4::PUTROOTFH4res> {};
template <>
struct Operation<GetHandle> : OperationIs<nfs4::OP_GETFH, nfs4::GETFH4res> {};
template <>
struct Operation<ReadLinkText> : OperationIs<nfs4::OP_READLINK, nfs4::READLINK4res> {};
template <>
struct Operation<LookUpParent> : OperationIs<nfs4::OP_LOOKUPP, nfs4::LOOKUPP4res> {};
template <>
struct Operation<SaveHandle> : OperationIs<nfs4::OP_SAVEFH, nfs4::SAVEFH4res> {};
template <>
struct Operation<nfs4::PUTFH4args> : OperationIs<nfs4::OP_PUTFH, nfs4::PUTFH4res> {};
template <>
struct Operation<nfs4::LOOKUP4args> : OperationIs<nfs4::OP_LOOKUP, nfs4::LOOKUP4res> {};
template <>
struct Operation<nfs4::GETATTR4args> : OperationIs<nfs4::OP_GETATTR, nfs4::GETATTR4res> {};
template <>
struct Operation<nfs4::READDIR4args> : OperationIs<nfs4::OP_READDIR, nfs4::READDIR4res> {};
template <>
struct Operation<nfs4::REMOVE4args> : OperationIs<nfs4::OP_REMOVE, nfs4::REMOVE4res> {};
template <>
struct Operation<nfs4::CREATE4args> : OperationIs<nfs4::OP_CREATE, nfs4::CREATE4res> {};
template <>
struct Operation<nfs4::LINK4args> : OperationIs<nfs4::OP_LINK, nfs4::LINK4res> {};
template <>
struct Operation<nfs4::RENAME4args> : OperationIs<nfs4::OP_RENAME, nfs4::RENAME4res> {};
template <>
struct Operation<nfs4::SETATTR4args> : OperationIs<nfs4::OP_SETATTR, nfs4::SETATTR4res> {};
template <>
struct Operation<nfs4::VERIFY4args> : OperationIs<nfs4::OP_VERIFY, nfs4::VERIFY4res> {};
template <>
struct Operation<nfs4::NVERIFY4args> : OperationIs<nfs4::OP_NVERIFY, nfs4::NVERIFY4res> {};
template <>
struct Operation<nfs4::OPEN4args> : OperationIs<nfs4::OP_OPEN, nfs4::OPEN4res> {};
template <>
struct Operation<nfs4::LOCK4args> : OperationIs<nfs4::OP_LOCK, nfs4::LOCK4res> {};
template <>
struct Operation<nfs4::LOCKT4args> : OperationIs<nfs4::OP_LOCKT, nfs4::LOCKT4res> {};
template <>
struct Operation<nfs4::LOCKU4args> : OperationIs<nfs4::OP_LOCKU, nfs4::LOCKU4res> {};
template <>
struct Operation<nfs4::CLOSE4args> : OperationIs<nfs4::OP_CLOSE, nfs4::CLOSE4res> {};
template <>
struct Operation<nfs4::READ4args> : OperationIs<nfs4::OP_READ, nfs4::READ4res> {};
template <>
struct Operation<nfs4::WRITE4args> : OperationIs<nfs4::OP_WRITE, nfs4::WRITE4res> {};
template <>
struct Operation<nfs4::COMMIT4args> : OperationIs<nfs4::OP_COMMIT, nfs4::COMMIT4res> {};
template <>
struct Operation<nfs4::DELEGRETURN4args> : OperationIs<nfs4::OP_DELEGRETURN, nfs4::DELEGRETURN4res> {};
template <>
struct Operation<nfs4::TEST_STATEID4args> : OperationIs<nfs4::OP_TEST_STATEID, nfs4::TEST_STATEID4res> {};
template <>
struct Operation<nfs4::FREE_STATEID4args> : OperationIs<nfs4::OP_FREE_STATEID, nfs4::FREE_STATEID4res> {};
template <>
struct Operation<nfs4::SETCLIENTID4args> : OperationIs<nfs4::OP_SETCLIENTID, nfs4::SETCLIENTID4res> {};
template <>
struct Operation<nfs4::SETCLIENTID_CONFIRM4args>
    : OperationIs<nfs4::OP_SETCLIENTID_CONFIRM, nfs4::SETCLIENTID_CONFIRM4res> {};
template <>
struct Operation<nfs4::RENEW4args> : OperationIs<nfs4::OP_RENEW, nfs4::RENEW4res> {};
template <>
struct Operation<nfs4::RELEASE_LOCKOWNER4args> : OperationIs<nfs4::OP_RELEASE_LOCKOWNER, nfs4::RELEASE_LOCKOWNER4res> {
};
template <>
struct Operation<nfs4::OPEN_CONFIRM4args> : OperationIs<nfs4::OP_OPEN_CONFIRM, nfs4::OPEN_CONFIRM4res> {};
template <>
struct Operation<nfs4::EXCHANGE_ID4args> : OperationIs<nfs4::OP_EXCHANGE_ID, nfs4::EXCHANGE_ID4res> {};
template <>
struct Operation<nfs4::CREATE_SESSION4args> : OperationIs<nfs4::OP_CREATE_SESSION, nfs4::CREATE_SESSION4res> {};
template <>
struct Operation<nfs4::BIND_CONN_TO_SESSION4args>
    : OperationIs<nfs4::OP_BIND_CONN_TO_SESSION, nfs4::BIND_CONN_TO_SESSION4res> {};
template <>
struct Operation<nfs4::BACKCHANNEL_CTL4args> : OperationIs<nfs4::OP_BACKCHANNEL_CTL, nfs4::BACKCHANNEL_CTL4res> {};
template <>
struct Operation<nfs4::SECINFO4args> : OperationIs<nfs4::OP_SECINFO, nfs4::SECINFO4res> {};
template <>
struct Operation<nfs4::SECINFO_NO_NAME4args> : OperationIs<nfs4::OP_SECINFO_NO_NAME, nfs4::SECINFO4res> {};
template <>
struct Operation<nfs4::SEQUENCE4args> : OperationIs<nfs4::OP_SEQUENCE, nfs4::SEQUENCE4res> {};
template <>
struct Operation<nfs4::RECLAIM_COMPLETE4args> : OperationIs<nfs4::OP_RECLAIM_COMPLETE, nfs4::RECLAIM_COMPLETE4res> {};
template <>
struct Operation<nfs4::DESTROY_SESSION4args> : OperationIs<nfs4::OP_DESTROY_SESSION, nfs4::DESTROY_SESSION4res> {};
template <>
struct Operation<nfs4::SESSIONCREATE4args> : OperationIs<nfs4::OP_SESSION_CREATE, nfs4::SESSIONCREATE4res> {};
template <>
struct Operation<nfs4::SESSIONBIND4args> : OperationIs<nfs4::OP_SESSION_BIND, nfs4::SESSIONBIND4res> {};
template <>
struct Operation<DestroyBoundSession> : OperationIs<nfs4::OP_SESSION_DESTROY, nfs4::SESSION_DESTROYres> {};
template <>
struct Operation<nfs4::OPERATIONCONTROL4args> : OperationIs<nfs4::OP_OPERATION_CONTROL, nfs4::OPERATIONCONTROL4res> {};
template <>
struct Operation<nfs4::ACCESS4args> : OperationIs<nfs4::OP_ACCESS, nfs4::ACCESS4res> {};
template <>
struct Operation<nfs4::ALLOCATE4args> : OperationIs<nfs4::OP_ALLOCATE, nfs4::ALLOCATE4res> {};
template <>
struct Operation<nfs4::DEALLOCATE4args> : OperationIs<nfs4::OP_DEALLOCATE, nfs4::DEALLOCATE4res> {};
template <>
struct Operation<nfs4::SEEK4args> : OperationIs<nfs4::OP_SEEK, nfs4::SEEK4res> {};
template <>
struct Operation<nfs4::COPY4args> : OperationIs<nfs4::OP_COPY, nfs4::COPY4res> {};
template <>
struct Operation<nfs4::CLONE4args> : OperationIs<nfs4::OP_CLONE, nfs4::CLONE4res> {};
template <>
struct Operation<nfs4::GETXATTR4args> : OperationIs<nfs4::OP_GETXATTR, nfs4::GETXATTR4res> {};
template <>
struct Operation<nfs4::SETXATTR4args> : OperationIs<nfs4::OP_SETXATTR, nfs4::SETXATTR4res> {};
template <>
struct Operation<nfs4::LISTXATTRS4args> : OperationIs<nfs4::OP_LISTXATTRS, nfs4::LISTXATTRS4res> {};
template <>
struct Operation<nfs4::REMOVEXATTR4args> : OperationIs<nfs4::OP_REMOVEXATTR, nfs4::REMOVEXATTR4res> {};
template <>
struct Operation<nfs4::DESTROY_CLIENTID4args> : OperationIs<nfs4::OP_DESTROY_CLIENTID, nfs4::DESTROY_CLIENTID4res> {};

// Room for the requested attributes. They include the names of two owners, which RFC 8881 §5.9 does not bound.
inline constexpr uint32_t kMaxAttributes = 1024;
// Room for an access control list, which RFC 8881 does not bound.
inline constexpr uint32_t kMaxAcl = 64 << 10;
// Room for the value of an extended attribute, which RFC 8276 does not bound. Linux has no longer ones.
inline constexpr uint32_t kMaxXattr = 64 << 10;
// Room for fs_locations, which RFC 8881 does not bound.
inline constexpr uint32_t kMaxLocations = 64 << 10;
// Room for a list of security flavors, which RFC 8881 does not bound.
inline constexpr uint32_t kMaxFlavors = 4 << 10;
// The longest transportattrs of a result of SESSION_BIND.
inline constexpr uint32_t kMaxTransportAttributes = 1024;

template <class T, class... Types>
inline constexpr bool kIsOneOf = (... || std::same_as<T, Types>);

// Adds the bounds of an operation's results to `shape` (RFC 8267 §3, §6.2): the bound of the types, the part that they
// leave open, and the DDP-eligible result, which is placed at `destination` unless that is empty.
template <class Arguments>
void AddBounds(const Arguments& arguments, Bytes destination, rpc::ReplyShape& shape) {
  using Results = typename Operation<Arguments>::Results;
  shape.max_stream += 4 + xdr::MaxSize<Results>();
  if constexpr (std::same_as<Arguments, nfs4::READ4args>) {
    shape.results.push_back({.max_length = arguments.count, .destination = destination});
  } else if constexpr (std::same_as<Arguments, ReadLinkText>) {
    // The text is DDP-eligible, but a Linux server (6.1) that is offered a chunk for it misplaces its length and
    // truncates it.
    shape.max_stream += nfs_protocol::kMaxPath;
  } else if constexpr (std::same_as<Arguments, nfs4::READDIR4args>) {
    shape.max_stream += arguments.maxcount;
  } else if constexpr (std::same_as<Arguments, nfs4::TEST_STATEID4args>) {
    shape.max_stream += static_cast<uint32_t>(4 * arguments.ts_stateids.size());
  } else if constexpr (std::same_as<Arguments, nfs4::SESSIONBIND4args>) {
    shape.max_stream += kMaxTransportAttributes;
  } else if constexpr (std::same_as<Arguments, nfs4::GETATTR4args>) {
    const nfs_protocol::NumberSet<uint32_t> asked(arguments.attr_request);
    shape.max_stream += asked.Has(nfs4::FATTR4_FS_LOCATIONS) ? kMaxLocations
                        : asked.Has(nfs4::FATTR4_ACL)        ? kMaxAcl
                                                             : kMaxAttributes;
  } else if constexpr (std::same_as<Arguments, nfs4::GETXATTR4args>) {
    shape.max_stream += kMaxXattr;
  } else if constexpr (std::same_as<Arguments, nfs4::LISTXATTRS4args>) {
    shape.max_stream += arguments.lxa_maxcount;
  } else if constexpr (kIsOneOf<Arguments, nfs4::SECINFO4args, nfs4::SECINFO_NO_NAME4args>) {
    shape.max_stream += kMaxFlavors;
  } else if constexpr (kIsOneOf<Arguments, nfs4::EXCHANGE_ID4args, nfs4::OPEN4args, nfs4::CREATE4args,
                                nfs4::SETATTR4args, nfs4::SETCLIENTID4args>) {
    // These results have attributes, sets of attributes, names of an implementation, an access control entry or an
    // address.
    shape.max_stream += kMaxAttributes;
  } else {
    static_assert(!xdr::kExtent<Results>.open && xdr::kExtent<Results>.payloads == 0);
  }
}

template <class Arguments>
void EncodeOperation(xdr::Encoder& encoder, const Arguments& arguments) {
  xdr::Encode(encoder, Operation<Arguments>::kNumber);
  if constexpr (!std::is_empty_v<Arguments>) xdr::Encode(encoder, arguments);
}

template <class Arguments>
bool DecodeOperation(xdr::Decoder& decoder, typename Operation<Arguments>::Results& results) {
  nfs4::nfs_opnum4 number;
  if (!xdr::Decode(decoder, number)) return false;
  if (number != Operation<Arguments>::kNumber) return decoder.Fail(xdr::Error::kBadUnion);
  return xdr::Decode(decoder, results);
}

// The results of a COMPOUND up to the first operation that failed (RFC 8881 §16.2.3), and the message that they refer
// to.
template <class... Arguments>
struct CompoundReply {
  rpc::Message message;
  std::vector<rpc::Message> more_messages{};  // if several requests made up the COMPOUND
  nfs4::nfsstat4 status = nfs4::nfsstat4::NFS4_OK;
  size_t count = 0;  // the number of results; the last one has the status `status`
  std::tuple<typename Operation<Arguments>::Results...> results;
};

// Returns the status of the operation with this index, or nothing if an earlier operation failed.
template <class... Arguments>
std::optional<nfs4::nfsstat4> StatusOf(const CompoundReply<Arguments...>& reply, size_t index) {
  if (index >= reply.count) return std::nullopt;
  return index + 1 == reply.count ? reply.status : nfs4::nfsstat4::NFS4_OK;
}

// Whether an operation must not be executed twice.
template <class Arguments>
inline constexpr bool kChangesOnce =
    kIsOneOf<Arguments, nfs4::LOCK4args, nfs4::LOCKU4args, nfs4::OPEN4args, nfs4::CLOSE4args, nfs4::CREATE4args,
             nfs4::LINK4args, nfs4::REMOVE4args, nfs4::RENAME4args, nfs4::SETATTR4args, nfs4::DELEGRETURN4args,
             nfs4::SETXATTR4args, nfs4::REMOVEXATTR4args, nfs4::RECLAIM_COMPLETE4args>;
// Whether the server must keep the reply until the slot is used again, because an operation must not be executed twice.
// All other COMPOUNDs are executed again if their reply is lost (RFC 8881 §2.10.6.1.3).
template <class... Arguments>
inline constexpr bool kMustBeCached = std::disjunction_v<std::bool_constant<kChangesOnce<Arguments>>...>;

// Whether the operation changes files or their names. Such a change outlasts the client's session, so that it must not
// be made again in the next one. Opens and locks end with the session.
template <class Arguments>
bool ChangesFiles(const Arguments& arguments) {
  if constexpr (std::same_as<Arguments, nfs4::OPEN4args>) {
    return arguments.openhow.opentype() == nfs4::opentype4::OPEN4_CREATE;
  } else {
    return kIsOneOf<Arguments, nfs4::CREATE4args, nfs4::LINK4args, nfs4::REMOVE4args, nfs4::RENAME4args,
                    nfs4::SETATTR4args, nfs4::SETXATTR4args, nfs4::REMOVEXATTR4args>;
  }
}

// Whether the operation changes a file or a name, or opens a file for writing.
template <class Arguments>
bool NeedsWriting(const Arguments& arguments) {
  if constexpr (std::same_as<Arguments, nfs4::OPEN4args>) {
    return ChangesFiles(arguments) || (arguments.share_access & nfs4::OPEN4_SHARE_ACCESS_WRITE) != 0;
  } else {
    return ChangesFiles(arguments) || kIsOneOf<Arguments, nfs4::WRITE4args, nfs4::ALLOCATE4args, nfs4::DEALLOCATE4args,
                                               nfs4::COPY4args, nfs4::CLONE4args>;
  }
}
template <class... Arguments>
bool NeedWriting(const std::tuple<Arguments...>& operations) {
  return std::apply([](const Arguments&... each) { return (NeedsWriting(each) || ...); }, operations);
}

// Whether the operations name state of the client id. If that is lost, they must not be repeated unchanged.
template <class... Arguments>
inline constexpr bool kHasStateId = std::disjunction_v<
    std::bool_constant<kIsOneOf<Arguments, nfs4::LOCK4args, nfs4::LOCKU4args, nfs4::CLOSE4args, nfs4::READ4args,
                                nfs4::WRITE4args, nfs4::OPEN_CONFIRM4args, nfs4::DELEGRETURN4args, nfs4::SEEK4args,
                                nfs4::ALLOCATE4args, nfs4::DEALLOCATE4args, nfs4::COPY4args, nfs4::CLONE4args>>...>;

// Whether the operations make or change such state. Their success is void if the client id is lost.
template <class... Arguments>
inline constexpr bool kChangesState = std::disjunction_v<
    std::bool_constant<kIsOneOf<Arguments, nfs4::OPEN4args, nfs4::CLOSE4args, nfs4::LOCK4args, nfs4::LOCKU4args>>...>;

// The reply to a std::tuple of operations.
template <class Operations>
struct ReplyTo;
template <class... Arguments>
struct ReplyTo<std::tuple<Arguments...>> {
  using Type = CompoundReply<Arguments...>;
};
template <class Operations>
using ReplyOf = typename ReplyTo<Operations>::Type;

template <class... Arguments>
rpc::ReplyShape ShapeOf(const std::tuple<Arguments...>& operations, Bytes destination) {
  rpc::ReplyShape shape;
  shape.max_stream = xdr::MaxSize<nfs4::COMPOUND4res_head>();
  std::apply([&](const auto&... each) { (AddBounds(each, destination, shape), ...); }, operations);
  return shape;
}

template <class... Arguments>
void EncodeOperations(xdr::Encoder& encoder, const std::tuple<Arguments...>& operations) {
  std::apply([&](const auto&... each) { (EncodeOperation(encoder, each), ...); }, operations);
}

template <class... Arguments>
void EncodeCompound(xdr::Encoder& encoder, uint32_t minor_version, const std::tuple<Arguments...>& operations) {
  xdr::Encode(encoder, nfs4::COMPOUND4args_head{{}, minor_version, sizeof...(Arguments)});
  EncodeOperations(encoder, operations);
}

// Decodes the head of the reply to a COMPOUND of `operations` operations. Rejects an impossible number of results.
inline bool DecodeHead(xdr::Decoder& decoder, uint32_t operations, nfs4::COMPOUND4res_head& head) {
  if (!xdr::Decode(decoder, head)) return false;
  const bool whole = head.count == operations;
  if (head.count > operations || (head.status == nfs4::nfsstat4::NFS4_OK && !whole)) {
    return decoder.Fail(xdr::Error::kTrailing);
  }
  return true;
}

// Operations of a COMPOUND: `count` of them from the index `first` on.
struct Part {
  uint32_t first = 0;
  uint32_t count = 0;
  bool Has(uint32_t index) const { return index >= first && index - first < count; }
};

// Decodes the results of the operations of `part`.
template <class... Arguments>
bool DecodeResults(xdr::Decoder& decoder, Part part, CompoundReply<Arguments...>& reply) {
  uint32_t next = 0;
  return std::apply(
      [&](auto&... results) { return ((!part.Has(next++) || DecodeOperation<Arguments>(decoder, results)) && ...); },
      reply.results);
}

// A COMPOUND whose operations can be sent in several requests. The types of the operations are hidden.
class CompoundParts {
 public:
  virtual void Encode(xdr::Encoder& encoder, Part part) const = 0;
  virtual rpc::ReplyShape Shape(Part part) const = 0;
  virtual bool Decode(xdr::Decoder& decoder, Part part) = 0;
  // Whether an operation of the part must not be executed twice.
  virtual bool ChangesOnce(Part part) const = 0;
  // Whether an operation of the part changes files or their names.
  virtual bool ChangesFiles(Part part) const = 0;

 protected:
  ~CompoundParts() = default;
};

// The operations and the reply outlive it.
template <class... Arguments>
class TypedParts final : public CompoundParts {
 public:
  TypedParts(const std::tuple<Arguments...>& operations, Bytes destination, CompoundReply<Arguments...>& reply)
      : operations_(operations), destination_(destination), reply_(reply) {}

  void Encode(xdr::Encoder& encoder, Part part) const override {
    ForEach(part, [&](const auto& each) { EncodeOperation(encoder, each); });
  }
  rpc::ReplyShape Shape(Part part) const override {
    rpc::ReplyShape shape;
    shape.max_stream = xdr::MaxSize<nfs4::COMPOUND4res_head>();
    ForEach(part, [&](const auto& each) { AddBounds(each, destination_, shape); });
    return shape;
  }
  bool Decode(xdr::Decoder& decoder, Part part) override { return DecodeResults(decoder, part, reply_); }
  bool ChangesOnce(Part part) const override {
    bool changes = false;
    ForEach(part, [&]<class Operation>(const Operation&) { changes |= kChangesOnce<Operation>; });
    return changes;
  }
  bool ChangesFiles(Part part) const override {
    bool changes = false;
    ForEach(part, [&](const auto& each) { changes |= v4::ChangesFiles(each); });
    return changes;
  }

 private:
  template <class Visit>
  void ForEach(Part part, Visit visit) const {
    uint32_t next = 0;
    std::apply([&](const auto&... each) { ((part.Has(next++) ? visit(each) : void()), ...); }, operations_);
  }

  const std::tuple<Arguments...>& operations_;
  const Bytes destination_;
  CompoundReply<Arguments...>& reply_;
};

template <class... Arguments>
bool DecodeCompound(xdr::Decoder& decoder, CompoundReply<Arguments...>& reply) {
  nfs4::COMPOUND4res_head head;
  if (!DecodeHead(decoder, sizeof...(Arguments), head)) return false;
  reply.status = head.status;
  reply.count = head.count;
  return DecodeResults(decoder, Part{0, head.count}, reply);
}

}  // namespace penstock::client::v4
