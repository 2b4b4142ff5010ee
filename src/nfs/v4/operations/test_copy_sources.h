// Another server with one file, for tests of COPY.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "nfs/v4/operations/copy_sources.h"

namespace penstock::nfs::v4 {

class TestCopySources final : public CopySources {
 public:
  std::string contents;  // of every file
  bool reachable = true;
  size_t readable = SIZE_MAX;  // octets; reading further fails
  std::function<void(uint64_t offset)> before_read{};
  nfs4::nfs_fh4 file{};  // of the last Open()
  nfs4::stateid4 stateid{};
  uint32_t uid = 0;
  size_t open = 0;  // files that are open now

  Task<std::unique_ptr<CopySource>> Open(const rpc::Peer&, Request request) override {
    file = request.file;
    stateid = request.stateid;
    uid = request.user.uid;
    if (!reachable) co_return nullptr;
    co_return std::make_unique<File>(*this);
  }
  SocketAddress AddressFor(const rpc::Peer& peer) const override { return {peer.local.address(), 2049}; }

 private:
  class File final : public CopySource {
   public:
    explicit File(TestCopySources& all) : CopySource(all.contents.size()), all_(all) { ++all_.open; }
    ~File() override { --all_.open; }
    Task<std::optional<Read>> ReadAt(uint64_t offset, Bytes into) override {
      if (all_.before_read) all_.before_read(offset);
      if (offset >= all_.readable) co_return std::nullopt;
      const size_t begin = std::min<uint64_t>(offset, all_.contents.size());
      const size_t count = std::min({into.size(), all_.contents.size() - begin, all_.readable - begin});
      CopyBytes(into, AsBytes(all_.contents).subspan(begin, count));
      co_return Read{count, begin + count == all_.contents.size()};
    }

   private:
    TestCopySources& all_;
  };
};

}  // namespace penstock::nfs::v4
