#include "nfs/v4/state/files/held_ranges.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <utility>

namespace penstock::nfs::v4 {

// ---- Reach: how far the ranges of a subtree reach ----

void HeldRanges::Reach::Add(const LockHolder* holder, uint64_t last) {
  if (!holder) return;
  if (holder == first_.holder) {
    first_.last = std::max(first_.last, last);
  } else if (!first_.holder || last > first_.last) {
    second_ = std::exchange(first_, {holder, last});
  } else if (!second_.holder || last > second_.last) {
    second_ = {holder, last};
  }
}

void HeldRanges::Reach::Add(const Reach& other) {
  Add(other.first_.holder, other.first_.last);
  Add(other.second_.holder, other.second_.last);
}

bool HeldRanges::Reach::Reaches(uint64_t octet, const LockHolder* asker) const {
  const End& others = first_.holder && first_.holder == asker ? second_ : first_;
  return others.holder && others.last >= octet;
}

// ---- the tree ----

bool HeldRanges::IsBefore(const Held& a, const Held& b) {
  return std::pair(a.range.range.first, a.holder->number) < std::pair(b.range.range.first, b.holder->number);
}

void HeldRanges::Update(Node& node) {
  node.height = 1 + std::max(HeightOf(node.left), HeightOf(node.right));
  node.all = {};
  node.exclusive = {};
  node.all.Add(node.held.holder, node.held.range.range.last);
  if (node.held.range.exclusive) node.exclusive.Add(node.held.holder, node.held.range.range.last);
  for (const Link* child : {&node.left, &node.right}) {
    if (!*child) continue;
    node.all.Add((*child)->all);
    node.exclusive.Add((*child)->exclusive);
  }
}

HeldRanges::Link HeldRanges::RotateLeft(Link node) {
  Link top = std::move(node->right);
  node->right = std::move(top->left);
  Update(*node);
  top->left = std::move(node);
  Update(*top);
  return top;
}

HeldRanges::Link HeldRanges::RotateRight(Link node) {
  Link top = std::move(node->left);
  node->left = std::move(top->right);
  Update(*node);
  top->right = std::move(node);
  Update(*top);
  return top;
}

// Balances a node and updates its data. Requires that its children are balanced and differ in height by two at most.
HeldRanges::Link HeldRanges::Balance(Link node) {
  const int slope = HeightOf(node->left) - HeightOf(node->right);
  if (slope > 1) {
    if (HeightOf(node->left->left) < HeightOf(node->left->right)) node->left = RotateLeft(std::move(node->left));
    return RotateRight(std::move(node));
  }
  if (slope < -1) {
    if (HeightOf(node->right->right) < HeightOf(node->right->left)) node->right = RotateRight(std::move(node->right));
    return RotateLeft(std::move(node));
  }
  Update(*node);
  return node;
}

HeldRanges::Link HeldRanges::Insert(Link node, Link added) {
  if (!node) return added;
  ++visited_;
  Link& side = IsBefore(added->held, node->held) ? node->left : node->right;
  side = Insert(std::move(side), std::move(added));
  return Balance(std::move(node));
}

HeldRanges::Link HeldRanges::TakeFirst(Link node, Link& first) {
  if (!node->left) {
    Link rest = std::move(node->right);
    first = std::move(node);
    return rest;
  }
  node->left = TakeFirst(std::move(node->left), first);
  return Balance(std::move(node));
}

HeldRanges::Link HeldRanges::Erase(Link node, const Held& gone) {
  assert(node);
  ++visited_;
  if (IsBefore(gone, node->held)) {
    node->left = Erase(std::move(node->left), gone);
  } else if (IsBefore(node->held, gone)) {
    node->right = Erase(std::move(node->right), gone);
  } else {
    if (!node->left) return std::move(node->right);
    if (!node->right) return std::move(node->left);
    Link next;
    Link rest = TakeFirst(std::move(node->right), next);
    next->left = std::move(node->left);
    next->right = std::move(rest);
    node = std::move(next);
  }
  return Balance(std::move(node));
}

void HeldRanges::Insert(const LockedRange& range, const LockHolder& holder) {
  auto added = std::make_unique<Node>(Node{.held = {range, &holder}});
  Update(*added);
  root_ = Insert(std::move(root_), std::move(added));
  ++size_;
}

void HeldRanges::Erase(const LockedRange& range, const LockHolder& holder) {
  root_ = Erase(std::move(root_), Held{range, &holder});
  --size_;
}

std::optional<HeldRanges::Held> HeldRanges::FindConflict(const LockRange& range, bool exclusive,
                                                         const LockHolder* asker) const {
  const auto reaches = [&](const Node& node) {
    return (exclusive ? node.all : node.exclusive).Reaches(range.first, asker);
  };
  for (const Node* node = root_.get(); node;) {
    ++visited_;
    const Held& held = node->held;
    if (node->left && reaches(*node->left)) {
      // A range in the left subtree reaches `range`. It conflicts unless it begins after the end of `range`. If it
      // does, all ranges to its right begin too late as well, so the search never has to come back.
      node = node->left.get();
    } else if (held.range.range.first > range.last) {
      break;
    } else if (held.holder != asker && (exclusive || held.range.exclusive) && held.range.range.Overlaps(range)) {
      return held;
    } else {
      node = node->right.get();
    }
  }
  return std::nullopt;
}

const char* HeldRanges::Check(const Link& link, const Held*& before, size_t& count) {
  if (!link) return nullptr;
  if (const char* wrong = Check(link->left, before, count)) return wrong;
  if (before && !IsBefore(*before, link->held)) return "held ranges are not in order";
  before = &link->held;
  ++count;
  if (const char* wrong = Check(link->right, before, count)) return wrong;
  if (std::abs(HeightOf(link->left) - HeightOf(link->right)) > 1) return "the tree of held ranges is not balanced";
  Node fresh{.held = link->held};
  Update(fresh);
  for (const Link* child : {&link->left, &link->right}) {
    if (!*child) continue;
    fresh.all.Add((*child)->all);
    fresh.exclusive.Add((*child)->exclusive);
  }
  const int height = 1 + std::max(HeightOf(link->left), HeightOf(link->right));
  if (link->height != height || fresh.all != link->all || fresh.exclusive != link->exclusive) {
    return "a node of held ranges has a wrong height or reach";
  }
  return nullptr;
}

const char* HeldRanges::FindInconsistency() const {
  const Held* before = nullptr;
  size_t count = 0;
  if (const char* wrong = Check(root_, before, count)) return wrong;
  return count == size_ ? nullptr : "the number of held ranges is wrong";
}

}  // namespace penstock::nfs::v4
