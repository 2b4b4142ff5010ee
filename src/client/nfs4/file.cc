#include "client/nfs4/file.h"

#include <algorithm>

namespace penstock::client::v4 {

std::optional<client::File::ReadReply> TakeData(const nfs4::READ4resok& read, Bytes into) {
  const ConstBytes data = read.data.bytes();
  if (data.size() > into.size() || (data.empty() && !read.eof && !into.empty())) return std::nullopt;
  if (data.data() != into.data()) CopyBytes(into, data);
  return client::File::ReadReply{static_cast<uint32_t>(data.size()), read.eof};
}

Task<Result<File::ReadReply>> File::Read(uint64_t offset, Bytes into) {
  const auto count = static_cast<uint32_t>(std::min<size_t>(into.size(), open_->mount().transfer_sizes().read));
  const auto make = [&](const nfs4::stateid4& stateid) { return nfs4::READ4args{stateid, offset, count}; };
  auto reply = co_await open_->Do(Access::kRead, make, into.first(count));
  open_->mount().delegations().HandleRead(node().handle);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const auto taken = TakeData(std::get<1>(reply->results).resok4(), into.first(count));
  if (!taken) co_return std::unexpected(Contradiction("READ"));
  co_return *taken;
}

Task<Result<File::WriteReply>> File::Write(uint64_t offset, ConstBytes from) {
  FileOwner& mount = open_->mount();
  const ConstBytes part = from.first(std::min<size_t>(from.size(), mount.transfer_sizes().write));
  const auto make = [&](const nfs4::stateid4& stateid) {
    return nfs4::WRITE4args{stateid, offset, nfs4::stable_how4::UNSTABLE4,
                            xdr::Payload<xdr::kUnbounded>::Borrowed(part)};
  };
  mount.delegations().HandleWrite(node().handle, offset + part.size());
  auto reply = co_await open_->Do(Access::kWrite, make);
  mount.delegations().HandleChange(node().handle);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs4::WRITE4resok& written = std::get<1>(reply->results).resok4();
  if (written.count > part.size() || (written.count == 0 && !part.empty())) {
    co_return std::unexpected(Contradiction("WRITE"));
  }
  co_return WriteReply{written.count, written.writeverf};
}

Task<Result<Verifier>> File::Commit() {
  auto reply = co_await open_->caller().Call(
      [&] { return std::tuple(nfs4::PUTFH4args{node().handle}, nfs4::COMMIT4args{0, 0}); }, name());
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return std::get<1>(reply->results).resok4().writeverf;
}

}  // namespace penstock::client::v4
