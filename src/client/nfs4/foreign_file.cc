#include "client/nfs4/foreign_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>

#include "client/nfs4/attributes.h"
#include "client/nfs4/file.h"
#include "client/nfs4/names.h"
#include "rpc/universal_address.h"

namespace penstock::client::v4 {
namespace {

CallerOptions OptionsFor(const ForeignFile::Limits& limits) {
  CallerOptions options = UniqueCaller(kVersion42);
  options.slots = 1;
  options.persist = false;  // all calls may be repeated
  options.callbacks = false;
  options.give_up_after = limits.call;
  return options;
}

}  // namespace

ForeignFile::ForeignFile(Loop& loop, Target target, Limits limits, std::unique_ptr<rpc::tcp::Channel> channel)
    : loop_(loop),
      target_(std::move(target)),
      name_(fmt::format("the source of a copy at {}", rpc::UniversalAddress(target_.server))),
      channel_(std::move(channel)),
      client_(*channel_, loop.buffers(), rpc::RandomXid(), rpc::ClientCredential(target_.user)),
      session_(loop, client_, OptionsFor(limits)) {}

Task<Result<std::unique_ptr<ForeignFile>>> ForeignFile::Connect(Loop& loop, Target target, Limits limits) {
  const rpc::tcp::ChannelOptions options{.connect_limit = limits.connect,
                                         .call_limit = limits.call,
                                         .local_port = target.local_port,
                                         .cancellation = limits.cancellation};
  auto channel = co_await rpc::tcp::Channel::Connect(loop, target.server, options);
  if (!channel) {
    co_return std::unexpected(
        Error{fmt::format("{}: {}", rpc::UniversalAddress(target.server), channel.error().message()), std::nullopt,
              channel.error().value()});
  }
  co_return std::unique_ptr<ForeignFile>(new ForeignFile(loop, std::move(target), limits, *std::move(channel)));
}

Task<Result<void>> ForeignFile::Open() {
  PENSTOCK_CO_CHECK(co_await session_.Establish(name_));
  auto reply = co_await session_.Call(
      [&] {
        return std::tuple(nfs4::PUTFH4args{target_.file}, nfs4::GETATTR4args{FileAttributes()},
                          nfs4::READ4args{target_.stateid, 0, 0});
      },
      name_);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  auto attributes = DecodeAttributes(std::get<1>(reply->results).resok4().obj_attributes);
  if (!attributes) co_return std::unexpected(MalformedAttributes(name_));
  attributes_ = *std::move(attributes);
  co_return Result<void>();
}

Task<Result<File::ReadReply>> ForeignFile::Read(uint64_t offset, Bytes into) {
  const auto count = static_cast<uint32_t>(std::min<size_t>(into.size(), PayloadWithin(session_.max_response())));
  auto reply = co_await session_.Call(
      [&] { return std::tuple(nfs4::PUTFH4args{target_.file}, nfs4::READ4args{target_.stateid, offset, count}); },
      name_, into.first(count));
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const auto data = DataOf(std::get<1>(reply->results).resok4(), count);
  if (!data) {
    co_return std::unexpected(
        Error{fmt::format("{}: the reply to READ contradicts itself", name_), std::nullopt, EPROTO});
  }
  co_return data->CopyTo(into);
}

Task<void> ForeignFile::Close() {
  co_await session_.Close();
  channel_->Close();
  // The loop takes one more turn before a closed channel is destroyed.
  co_await Sleep(loop_, Duration::zero());
}

}  // namespace penstock::client::v4
