#include "client/nfs4/file.h"

#include <algorithm>
#include <vector>

#include "client/nfs4/attributes.h"

namespace penstock::client::v4 {

std::optional<client::File::FetchReply> DataOf(const nfs4::READ4resok& read, size_t count) {
  const Slice& octets = read.data.data().memory();
  if (octets.size() > count || (octets.empty() && !read.eof && count > 0)) return std::nullopt;
  return client::File::FetchReply{octets, read.eof};
}

Task<Result<File::FetchReply>> File::Fetch(uint64_t offset, Bytes into) {
  const auto count = static_cast<uint32_t>(std::min<size_t>(into.size(), open_->mount().transfer_sizes().read));
  const auto make = [&](const nfs4::stateid4& stateid) { return nfs4::READ4args{stateid, offset, count}; };
  auto reply = co_await open_->Do(Access::kRead, make, into.first(count));
  open_->mount().delegations().HandleRead(node().handle);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  auto data = DataOf(std::get<1>(reply->results).resok4(), count);
  if (!data) co_return std::unexpected(Contradiction("READ"));
  co_return *std::move(data);
}

Task<Result<File::WriteReply>> File::Write(uint64_t offset, ConstBytes from, Stability stability) {
  FileOwner& mount = open_->mount();
  const ConstBytes part = from.first(std::min<size_t>(from.size(), mount.transfer_sizes().write));
  using enum nfs4::stable_how4;
  const nfs4::stable_how4 how = stability == Stability::kStable ? FILE_SYNC4 : UNSTABLE4;
  const auto make = [&](const nfs4::stateid4& stateid) {
    return nfs4::WRITE4args{stateid, offset, how, xdr::Payload<xdr::kUnbounded>::Borrowed(part)};
  };
  mount.delegations().HandleWrite(node().handle, offset + part.size());
  auto reply = co_await open_->Do(Access::kWrite, make);
  mount.delegations().HandleChange(node().handle);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs4::WRITE4resok& written = std::get<1>(reply->results).resok4();
  if (written.count > part.size() || (written.count == 0 && !part.empty())) {
    co_return std::unexpected(Contradiction("WRITE"));
  }
  co_return WriteReply{written.count, written.writeverf, written.committed == FILE_SYNC4};
}

Task<Result<Verifier>> File::Commit() {
  auto reply = co_await open_->caller().Call(
      [&] { return std::tuple(nfs4::PUTFH4args{node().handle}, nfs4::COMMIT4args{0, 0}); }, name());
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return std::get<1>(reply->results).resok4().writeverf;
}

template <class Make>
Task<Result<void>> File::Change(Make make) {
  Delegations& delegations = open_->mount().delegations();
  delegations.HandleChange(node().handle);
  auto reply = co_await open_->Do(Access::kWrite, make);
  delegations.HandleChange(node().handle);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return Result<void>();
}

// RFC 8881 §18.30: the stateid shows that the file is open for writing.
Task<Result<void>> File::SetSize(uint64_t size) {
  std::vector<std::byte> octets;
  const NewAttributes attributes{.size = size};
  const nfs4::fattr4 encoded = EncodeAttributes(attributes, octets);
  const auto make = [&](const nfs4::stateid4& stateid) { return nfs4::SETATTR4args{stateid, encoded}; };
  co_return co_await Change(make);
}

// ---- version 4.2 ----

Task<Result<std::optional<uint64_t>>> File::Seek(uint64_t offset, Content content) {
  if (!has_files_of_version_42()) co_return NotSupported();
  const auto wanted =
      content == Content::kData ? nfs4::data_content4::NFS4_CONTENT_DATA : nfs4::data_content4::NFS4_CONTENT_HOLE;
  const auto make = [&](const nfs4::stateid4& stateid) { return nfs4::SEEK4args{stateid, offset, wanted}; };
  auto reply = co_await open_->Do(Access::kRead, make);
  open_->mount().delegations().HandleRead(node().handle);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs4::seek_res4& found = std::get<1>(reply->results).resok4();
  // RFC 7862 §15.11.3: only for data, sr_eof says that there is none. A hole may begin at the end of the file.
  if (found.sr_eof && content == Content::kData) co_return std::nullopt;
  if (found.sr_offset < offset) co_return std::unexpected(Contradiction("SEEK"));
  co_return found.sr_offset;
}

Task<Result<void>> File::Allocate(uint64_t offset, uint64_t length) {
  if (!has_files_of_version_42()) co_return NotSupported();
  const auto make = [=](const nfs4::stateid4& stateid) { return nfs4::ALLOCATE4args{stateid, offset, length}; };
  co_return co_await Change(make);
}

Task<Result<void>> File::Deallocate(uint64_t offset, uint64_t length) {
  if (!has_files_of_version_42()) co_return NotSupported();
  const auto make = [=](const nfs4::stateid4& stateid) { return nfs4::DEALLOCATE4args{stateid, offset, length}; };
  co_return co_await Change(make);
}

File* File::Copyable(client::File& source) const {
  auto* const file = dynamic_cast<File*>(&source);
  const bool is_here = file && &file->open_->mount() == &open_->mount();
  return is_here && has_files_of_version_42() ? file : nullptr;
}

Task<Result<File::CopyReply>> File::CopyFrom(client::File& source, uint64_t from, uint64_t to, uint64_t length) {
  File* const file = Copyable(source);
  if (!file) co_return NotSupported();
  if (length == 0) co_return CopyReply{};  // in the protocol, zero means all octets
  const auto make = [=](const nfs4::stateid4& source_stateid, const nfs4::stateid4& stateid) {
    return nfs4::COPY4args{.ca_src_stateid = source_stateid,
                           .ca_dst_stateid = stateid,
                           .ca_src_offset = from,
                           .ca_dst_offset = to,
                           .ca_count = length,
                           .ca_consecutive = true,
                           .ca_synchronous = true,
                           .ca_source_server = {}};
  };
  Delegations& delegations = open_->mount().delegations();
  delegations.HandleChange(node().handle);
  auto reply = co_await open_->DoBetween(*file->open_, make);
  delegations.HandleChange(node().handle);
  delegations.HandleRead(file->node().handle);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs4::write_response4& written = std::get<3>(reply->results).cr_resok4().cr_response;
  if (written.wr_callback_id || written.wr_count > length) co_return std::unexpected(Contradiction("COPY"));
  CopyReply copied{.count = written.wr_count};
  if (written.wr_committed == nfs4::stable_how4::UNSTABLE4) copied.verifier = written.wr_writeverf;
  co_return copied;
}

Task<Result<void>> File::CloneFrom(client::File& source, uint64_t from, uint64_t to, uint64_t length) {
  File* const file = Copyable(source);
  if (!file) co_return NotSupported();
  const auto make = [=](const nfs4::stateid4& source_stateid, const nfs4::stateid4& stateid) {
    return nfs4::CLONE4args{.cl_src_stateid = source_stateid,
                            .cl_dst_stateid = stateid,
                            .cl_src_offset = from,
                            .cl_dst_offset = to,
                            .cl_count = length};
  };
  Delegations& delegations = open_->mount().delegations();
  delegations.HandleChange(node().handle);
  auto reply = co_await open_->DoBetween(*file->open_, make);
  delegations.HandleChange(node().handle);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return Result<void>();
}

}  // namespace penstock::client::v4
