// Implements FileClaims: reports NFSv4's opens and delegations to the other versions of NFS that serve the same files.
#pragma once

#include "nfs/file_claims.h"
#include "nfs/v4/engine/compound.h"
#include "nfs/v4/operations/io_state.h"

namespace penstock::nfs::v4 {

class Claims final : public FileClaims {
 public:
  // The objects in `services` must outlive this.
  explicit Claims(const Services& services);

  uint64_t Mark() const override;
  bool IsOutdated(const NamedFile& file, uint64_t mark) const override;
  Task<Checked> Check(Loop* loop, NamedFile file, Use use) override;

 private:
  static Task<nfs4::nfsstat4> Ask(Asker anybody, NamedFile file, Use use);

  const Services services_;
};

}  // namespace penstock::nfs::v4
