// A file that is open at a server of NFSv4.1: a stateid, and how to have it again when the server has lost it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/signal.h"
#include "client/mount.h"
#include "client/nfs4/session.h"

namespace penstock::client::v4 {

class File;

// What open files need of their mount.
class FileOwner {
 public:
  virtual Session& session() = 0;
  virtual const TransferSizes& transfer_sizes() const = 0;
  // Those that are open, and so are to be reclaimed.
  virtual void Add(File& file) = 0;
  virtual void Remove(File& file) = 0;

 protected:
  ~FileOwner() = default;
};

// Each file has an owner of its own, so that two opens of the same file have two stateids (RFC 8881 §9.10).
std::array<std::byte, 8> OwnerOctets(uint64_t owner);
// An OPEN without its claim, of a file that exists. Refers to `owner`.
nfs4::OPEN4args MakeOpen(nfs4::clientid4 client, ConstBytes owner, Access access);

class File final : public client::File {
 public:
  File(FileOwner& mount, Node node, std::string_view name, Access access, uint64_t owner)
      : client::File(std::move(node), name), mount_(mount), access_(access), owner_(OwnerOctets(owner)) {
    mount_.Add(*this);
  }
  ~File() override { mount_.Remove(*this); }

  // OPEN by its handle.
  Task<Result<void>> Open();
  // The result of an OPEN under the client id of that epoch (see Lease). Gives back a delegation that comes with it.
  Task<void> HandleOpened(const nfs4::OPEN4resok& result, uint64_t epoch);
  // Within the server's grace period: RFC 8881 §8.4.2.1. What fails is opened anew when it is used next.
  Task<void> Reclaim();

  Task<Result<ReadReply>> Read(uint64_t offset, Bytes into) override;
  Task<Result<WriteReply>> Write(uint64_t offset, ConstBytes from) override;
  Task<Result<Verifier>> Commit() override;
  Task<Result<void>> Close() override;

 private:
  // Executes PUTFH and the operation that `make(stateid)` gives, with the file open.
  template <class Make>
  auto Do(Make make, Bytes destination = {})
      -> Task<Result<CompoundReply<nfs4::PUTFH4args, decltype(make(std::declval<const nfs4::stateid4&>()))>>>;
  Task<Result<void>> EnsureOpen();
  bool is_open() const { return open_epoch_ == mount_.session().lease().epoch(); }

  FileOwner& mount_;
  const Access access_;
  const std::array<std::byte, 8> owner_;
  nfs4::stateid4 stateid_;
  uint64_t open_epoch_ = 0;  // zero: not open
  bool opening_ = false;
  Signal opened_;
};

}  // namespace penstock::client::v4
