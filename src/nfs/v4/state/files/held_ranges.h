// The byte-range locks that all owners hold on one file, in one interval tree: it tells whose lock is in the way of another (RFC 8881
// §9.1). A balanced search tree (AVL), ordered by the first octet. Each node knows how far the ranges below it reach, and of
// which holders, so that a search passes by the asker's own ranges and walks down one path only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "nfs/v4/state/files/lock_ranges.h"

namespace penstock::nfs::v4 {

// Who holds ranges: one owner, on one file. It outlives its ranges. The number orders holders whose ranges begin together, so no two
// holders on one file have the same.
struct LockHolder {
  explicit LockHolder(uint64_t of) : number(of) {}
  const uint64_t number;
};

class HeldRanges {
 public:
  struct Held {
    LockedRange range;
    const LockHolder* holder = nullptr;
  };

  // The ranges of one holder do not overlap. Each takes O(log n).
  void Insert(const LockedRange& range, const LockHolder& holder);
  void Erase(const LockedRange& range, const LockHolder& holder);

  // The first range that a lock of `range` by `asker` would conflict with; null asks for one who holds nothing. O(log n), however many ranges
  // overlap, and whoever holds them.
  std::optional<Held> FindConflict(const LockRange& range, bool exclusive, const LockHolder* asker) const;

  size_t size() const { return size_; }
  // Nodes that all calls so far have looked at: the cost, for tests.
  size_t visited() const { return visited_; }
  // What is wrong with the tree; null: nothing. For tests and fuzzers.
  const char* FindInconsistency() const;

 private:
  // How far ranges reach: the furthest, and the furthest of any other holder.
  class Reach {
   public:
    void Add(const LockHolder* holder, uint64_t last);
    void Add(const Reach& other);
    // Whether a range of somebody else than `asker` ends at `octet` or later.
    bool Reaches(uint64_t octet, const LockHolder* asker) const;
    bool operator==(const Reach&) const = default;

   private:
    struct End {
      const LockHolder* holder = nullptr;
      uint64_t last = 0;
      bool operator==(const End&) const = default;
    };
    End first_, second_;
  };
  struct Node;
  using Link = std::unique_ptr<Node>;
  struct Node {
    Held held;
    int height = 1;
    Reach all{}, exclusive{};  // of the ranges of this node and those below it
    Link left{}, right{};
  };

  static int HeightOf(const Link& link) { return link ? link->height : 0; }
  static bool IsBefore(const Held& a, const Held& b);
  static void Update(Node& node);
  static Link RotateLeft(Link node);
  static Link RotateRight(Link node);
  static Link Balance(Link node);
  Link Insert(Link node, Link added);
  Link Erase(Link node, const Held& gone);
  static Link TakeFirst(Link node, Link& first);
  static const char* Check(const Link& link, const Held*& before, size_t& count);

  Link root_;
  size_t size_ = 0;
  mutable size_t visited_ = 0;
};

}  // namespace penstock::nfs::v4
