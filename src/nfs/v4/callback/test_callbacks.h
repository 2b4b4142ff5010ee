// For tests, fuzz targets and the simulation: the callbacks of a server that reaches no client.
#pragma once

#include <optional>

#include "nfs/v4/callback/callbacks.h"

namespace penstock::nfs::v4 {

class NoCallbacks final : public Callbacks {
  void Recall(ClientId, const nfs4::stateid4&, const FileHandle&, const std::optional<RequestName>&) override {}
  Task<HolderAttributes> GetAttributes(Loop*, ClientId, const FileHandle&, bool) override {
    co_return HolderAttributes{};
  }
  void NotifyLock(ClientId, const FileHandle&, ConstBytes) override {}
  Task<> OffloadDone(ClientId, FileHandle, nfs4::stateid4, nfs4::offload_info4) override { co_return; }
};

}  // namespace penstock::nfs::v4
