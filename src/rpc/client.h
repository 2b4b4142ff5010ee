// Typed calls over a Channel.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rpc/auth.h"
#include "rpc/header.h"
#include "rpc/transport.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::rpc {

// The reason why a call has no results.
struct Error {
  enum class Kind : uint8_t {
    kTransport,           // see `transport`
    kProgramUnavailable,  // accepted but not executed
    kProgramMismatch,     // see `versions`
    kProcedureUnavailable,
    kGarbageArguments,
    kSystemError,
    kRpcMismatch,     // denied; see `versions`
    kAuthentication,  // denied; see `auth`
    kMalformedReply,
  };
  Kind kind = Kind::kMalformedReply;
  CallError transport = CallError::kMalformed;
  AuthStatus auth = AuthStatus::AUTH_OK;
  VersionRange versions{};
};
// Returns a description for the user.
std::string Describe(const Error& error);
// The error of a reply without results.
Error ErrorOf(const ReplyHeader& header);

// The results of a call, and the message that their views refer to.
template <class Results>
struct Reply {
  Message message;
  Results results;
};

// The parts of the largest possible reply that do not follow from its types.
struct ReplyBounds {
  // Octets of lists and of opaques without a maximum in the stream, for example READDIR's count.
  size_t open = 0;
  // See ReplyShape::results.
  std::vector<ResultSink> results;
};

// Returns a random XID, for the first call of a client. Thread-safe.
Xid RandomXid();

// Makes calls over a channel. Belongs to the channel's loop. All programs on one channel share one Client, which
// assigns the XIDs. A BackChannel assigns its own XIDs.
class Client {
 public:
  // The channel and the pool must outlive the client. `first_xid` should be random, because servers remember the XIDs
  // of earlier connections.
  Client(Channel& channel, BufferPool& buffers, Xid first_xid, ClientCredential credential = {})
      : channel_(channel),
        buffers_(buffers),
        own_xids_(first_xid),
        xids_(own_xids_),
        credential_(std::move(credential)) {}
  // Makes calls in the reverse direction. Any number of clients may share the channel.
  explicit Client(BackChannel& channel, ClientCredential credential = {})
      : channel_(channel), buffers_(channel.buffers()), xids_(channel.xids()), credential_(std::move(credential)) {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // The credential of later calls.
  void set_credential(ClientCredential credential) { credential_ = std::move(credential); }

  // `arguments`, and the memory that they refer to, must stay unchanged until the call ends.
  template <class Procedure>
  Task<Result<Reply<typename Procedure::Results>, Error>> Call(const typename Procedure::Arguments& arguments,
                                                               ReplyBounds bounds = {});

  // The same for a procedure whose arguments and results are not single values. `encode(encoder)` writes the arguments.
  // `decode(decoder)` reads all results, or returns false if they are malformed. `shape` excludes the reply's header.
  template <class Procedure, class Encode, class Decode>
  Task<Result<Message, Error>> CallWith(Encode encode, ReplyShape shape, Decode decode);

 private:
  Channel& channel_;
  BufferPool& buffers_;
  XidSequence own_xids_{Xid(0)};
  XidSequence& xids_;
  ClientCredential credential_;
};

template <class Procedure>
Task<Result<Reply<typename Procedure::Results>, Error>> Client::Call(const typename Procedure::Arguments& arguments,
                                                                     ReplyBounds bounds) {
  using Results = typename Procedure::Results;
  ReplyShape shape;
  shape.max_stream = xdr::MaxSize<Results>() + bounds.open;
  shape.results = std::move(bounds.results);
  Reply<Results> reply;
  auto message = co_await CallWith<Procedure>(
      [&arguments](xdr::Encoder& encoder) { xdr::Encode(encoder, arguments); }, std::move(shape),
      [&reply](xdr::Decoder& decoder) { return xdr::Decode(decoder, reply.results); });
  if (!message) co_return std::unexpected(message.error());
  reply.message = *std::move(message);
  co_return reply;
}

template <class Procedure, class Encode, class Decode>
Task<Result<Message, Error>> Client::CallWith(Encode encode, ReplyShape shape, Decode decode) {
  const Xid xid = xids_.Next();
  xdr::Encoder encoder(buffers_);
  EncodeCallHeader(encoder,
                   {xid, Procedure::kProgram, Procedure::kVersion, Procedure::kNumber, credential_.auth(), {}});
  encode(encoder);
  Message call = encoder.Finish();
  shape.max_stream += kMaxReplyHeader;
  Result<Message, CallError> answer = co_await channel_.Call(std::move(call), std::move(shape));
  if (!answer) co_return std::unexpected(Error{.kind = Error::Kind::kTransport, .transport = answer.error()});

  xdr::Decoder decoder(*answer);
  ReplyHeader header;
  if (!DecodeReplyHeader(decoder, header) || header.xid != xid) co_return std::unexpected(Error{});
  if (!header.body.is_areply() || header.body.areply().reply_data.discriminant() != AcceptStatus::SUCCESS) {
    co_return std::unexpected(ErrorOf(header));
  }
  if (!decode(decoder) || !decoder.Finish()) co_return std::unexpected(Error{});
  co_return *std::move(answer);
}

}  // namespace penstock::rpc
