// The opens of one file, found without a look at the others: by owner, by what they share and deny, by party.
#pragma once

#include <array>
#include <cstddef>
#include <list>
#include <unordered_map>

#include "nfs/v4/state/files/share.h"
#include "nfs/v4/state/ids.h"

namespace penstock::nfs::v4 {

struct OpenOwner;
struct OpenState;

class FileOpens {
 public:
  // By a bit of access or of denial: OPEN4_SHARE_ACCESS_READ and _WRITE, OPEN4_SHARE_DENY_READ and _WRITE. The oldest open comes first.
  static constexpr size_t kBits = 4;
  using Places = std::array<std::list<OpenState*>::iterator, kBits>;  // where an open is in the lists of its bits
  // An owner opens a file once by each export that it comes by.
  struct Opener {
    const OpenOwner* owner = nullptr;
    ExportId by;
    bool operator==(const Opener&) const = default;
  };
  struct OpenerHash {
    size_t operator()(const Opener& opener) const {
      return std::hash<const OpenOwner*>{}(opener.owner) ^ (std::hash<ExportId>{}(opener.by) * 0x9e3779b97f4a7c15u);
    }
  };
  using All = std::unordered_map<Opener, OpenState*, OpenerHash>;

  // Without any share: see SetShare().
  void Add(OpenState& open);
  void Remove(OpenState& open);
  void SetShare(OpenState& open, const Share& share);

  OpenState* Find(const Opener& opener) const;
  // An open that does not go together with another one of `share`.
  const OpenState* FindConflict(const Share& share) const;
  // One that denies reading, or writing, other than `own`.
  const OpenState* FindDenial(bool write, const OpenState* own) const;
  // Opens of other parties than this; those that may write.
  bool HasOthers(const Party& party) const;
  bool HasOtherWriters(const Party& party) const;
  bool HasWriters() const;

  bool empty() const { return all_.empty(); }
  size_t size() const { return all_.size(); }
  // In no order that would be the same twice.
  const All& all() const { return all_; }

 private:
  struct Counts {
    size_t opens = 0;
    size_t writers = 0;
  };
  Counts CountsOf(const Party& party) const;

  All all_;
  std::array<std::list<OpenState*>, kBits> by_bit_;
  std::unordered_map<Party, Counts, PartyHash> by_party_;
};

}  // namespace penstock::nfs::v4
