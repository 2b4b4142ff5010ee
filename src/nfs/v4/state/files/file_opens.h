// The opens of one file, indexed by owner, by the access that they share and deny, and by party. No look-up visits all
// opens.
#pragma once

#include <array>
#include <cstddef>
#include <list>

#include "base/steady_map.h"
#include "nfs/v4/state/files/share.h"
#include "nfs/v4/state/ids.h"

namespace penstock::nfs::v4 {

struct OpenOwner;
struct OpenState;

class FileOpens {
 public:
  // A list of opens for each bit of access or denial: OPEN4_SHARE_ACCESS_READ and _WRITE, OPEN4_SHARE_DENY_READ and
  // _WRITE. The oldest open comes first.
  static constexpr size_t kBits = 4;
  using Places = std::array<std::list<OpenState*>::iterator, kBits>;  // the places of an open in the lists of its bits
  // An owner has one open of a file for each export that it uses.
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
  using All = SteadyMap<Opener, OpenState*, OpenerHash>;

  // Adds an open that has no share yet: see SetShare().
  void Add(OpenState& open);
  void Remove(OpenState& open);
  void SetShare(OpenState& open, const Share& share);

  OpenState* Find(const Opener& opener) const;
  // Returns an open that conflicts with another open with `share`; null if there is none.
  const OpenState* FindConflict(const Share& share) const;
  // Returns an open, other than `own`, that denies reading or writing; null if there is none. The shares of hosts deny
  // opens only (see HostLocks): they do not count.
  const OpenState* FindDenial(bool write, const OpenState* own) const;
  // Whether other parties than this have opens, or opens for writing.
  bool HasOthers(const Party& party) const;
  bool HasOtherWriters(const Party& party) const;
  bool HasWriters() const;
  // Whether an open has no access: it stands for the locks of a host, which may have the file open in any way.
  bool HasWithoutAccess() const { return without_access_ > 0; }

  bool empty() const { return all_.empty(); }
  size_t size() const { return all_.size(); }
  // The oldest comes first.
  const All& all() const { return all_; }

 private:
  struct Counts {
    size_t opens = 0;
    size_t writers = 0;
  };
  Counts CountsOf(const Party& party) const;
  size_t CountWriters() const;

  using Lists = std::array<std::list<OpenState*>, kBits>;

  All all_;
  Lists of_clients_, of_hosts_;
  size_t without_access_ = 0;
  SteadyMap<Party, Counts, PartyHash> by_party_;
};

}  // namespace penstock::nfs::v4
