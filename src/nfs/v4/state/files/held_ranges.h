// The byte-range locks that all owners hold on one file, in one interval tree. It finds the lock that conflicts with a
// request (RFC 8881 §9.1). The tree is a balanced search tree (AVL), ordered by the first octet. Each node knows how
// far the ranges below it reach, and which holders have them, so a search skips the asker's own ranges and walks down a
// single path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "nfs/v4/state/files/lock_ranges.h"

namespace penstock::nfs::v4 {

// A holder of ranges: one owner on one file. It outlives its ranges. The number orders holders whose ranges begin at
// the same octet, so no two holders of a file have the same number.
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

  // The ranges of one holder must not overlap. Each call takes O(log n).
  void Insert(const LockedRange& range, const LockHolder& holder);
  void Erase(const LockedRange& range, const LockHolder& holder);

  // Returns the first range that conflicts with a lock of `range` by `asker`; null stands for an asker that holds no
  // range. O(log n), for any number of overlapping ranges and holders.
  std::optional<Held> FindConflict(const LockRange& range, bool exclusive, const LockHolder* asker) const;

  size_t size() const { return size_; }
  // The number of nodes that all calls so far have visited: the cost, for tests.
  size_t visited() const { return visited_; }
  // Describes the first inconsistency of the tree; returns null if there is none.
  const char* FindInconsistency() const;

 private:
  // The range that ends last, and the range of any other holder that ends last.
  class Reach {
   public:
    void Add(const LockHolder* holder, uint64_t last);
    void Add(const Reach& other);
    // Whether a range of another holder than `asker` ends at `octet` or later.
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
