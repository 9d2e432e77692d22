// kernels/plan/einsum_plan.cc — plans an einsum as one batched matrix product
#include "kernels/plan/einsum_plan.h"

#include <algorithm>

#include "alpa/base/error.h"

namespace alpa::kernels {
namespace {

bool has(const std::string& letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

template <class Keep>
std::string filtered(const std::string& letters, Keep keep) {
  std::string out;
  std::copy_if(letters.begin(), letters.end(), std::back_inserter(out), keep);
  return out;
}

/// The three lists of letters of an equation.
struct Equation {
  std::string x, y, z;
};
Equation split(const std::string& text) {
  const std::size_t comma = text.find(','), arrow = text.find("->");
  invariant(comma != std::string::npos && arrow != std::string::npos && comma < arrow,
            "einsum: equation \"{}\"", text);
  return {text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1), text.substr(arrow + 2)};
}

void read_extents(EinsumPlan& plan, const std::string& letters,
                  const std::vector<std::int64_t>& shape) {
  invariant(letters.size() == shape.size(), "einsum: letters \"{}\" for {} dimensions", letters,
            shape.size());
  for (std::size_t d = 0; d < letters.size(); ++d) {
    const auto [known, is_new] = plan.extents.emplace(letters[d], shape[d]);
    invariant(is_new || known->second == shape[d], "einsum: letter {} is {} and {}", letters[d],
              known->second, shape[d]);
  }
}

/// Letters of each role, in the order in which the product will use them.
struct Roles {
  std::string batch, m, n, k;
};

/// Whether `group` is a contiguous part of `layout`, in the same order.
bool contiguous(const std::string& layout, const std::string& group) {
  return layout.find(group) != std::string::npos;
}

/// Whether the array is a matrix rows × columns for every batch index: each group one dimension,
/// one of them of stride 1 unless the matrix is but a line.
bool is_matrix(const std::string& layout, const std::string& rows, const std::string& columns) {
  if (!contiguous(layout, rows) || !contiguous(layout, columns)) return false;
  if (rows.empty() || columns.empty()) return true;
  return has(rows, layout.back()) || has(columns, layout.back());
}

std::string in_order_of(const std::string& layout, const std::string& letters) {
  return filtered(layout, [&](char l) { return has(letters, l); });
}

Roles choose_roles(const EinsumPlan& plan, bool fixed_sums) {
  const std::string &a = plan.a.layout, &b = plan.b.layout, &c = plan.c;
  Roles roles{filtered(c, [&](char l) { return has(a, l) && has(b, l); }),
              filtered(c, [&](char l) { return has(a, l) && !has(b, l); }),
              filtered(c, [&](char l) { return has(b, l) && !has(a, l); }),
              filtered(a, [&](char l) { return has(b, l) && !has(c, l); })};
  if (!is_matrix(c, roles.m, roles.n)) {  // computed elsewhere, then in the operands' order
    roles.m = in_order_of(a, roles.m);
    roles.n = in_order_of(b, roles.n);
  }
  if (fixed_sums)
    roles.k = in_order_of(plan.swapped ? b : a, roles.k);
  else if (!is_matrix(a, roles.m, roles.k))
    roles.k = in_order_of(b, roles.k);
  return roles;
}

void choose_layouts(EinsumPlan& plan, const Roles& roles, bool one_batch) {
  const auto fits = [&](const std::string& layout, const std::string& rows,
                        const std::string& columns) {
    return is_matrix(layout, rows, columns) && (!one_batch || contiguous(layout, roles.batch));
  };
  if (!fits(plan.a.layout, roles.m, roles.k)) plan.a.packed = roles.batch + roles.m + roles.k;
  if (!fits(plan.b.layout, roles.k, roles.n)) plan.b.packed = roles.batch + roles.k + roles.n;
  const bool unit_columns = roles.n.empty() || has(roles.n, plan.c.back());
  if (!fits(plan.c, roles.m, roles.n) || !unit_columns)
    plan.c_packed = roles.batch + roles.m + roles.n;
}

/// Stride of the innermost letter of `group`; 0 for an empty one.
std::int64_t stride_of_group(const EinsumPlan& plan, const std::string& layout,
                             const std::string& group) {
  return group.empty() ? 0 : strides_of(plan, layout, group).back();
}

void fill_shape(EinsumPlan& plan, const Roles& roles) {
  const std::string& a = plan.a.packed.empty() ? plan.a.layout : plan.a.packed;
  const std::string& b = plan.b.packed.empty() ? plan.b.layout : plan.b.packed;
  const std::string& c = plan.c_packed.empty() ? plan.c : plan.c_packed;
  MatmulShape& s = plan.shape;
  s.m = plan.extent_of(roles.m), s.n = plan.extent_of(roles.n), s.k = plan.extent_of(roles.k);
  s.a_m = stride_of_group(plan, a, roles.m), s.a_k = stride_of_group(plan, a, roles.k);
  s.b_k = stride_of_group(plan, b, roles.k), s.b_n = stride_of_group(plan, b, roles.n);
  s.c_m = stride_of_group(plan, c, roles.m);
  for (char letter : roles.batch) {
    const std::string l(1, letter);
    const BatchDim dim{plan.extents.at(letter), strides_of(plan, a, l)[0],
                       strides_of(plan, b, l)[0], strides_of(plan, c, l)[0]};
    const auto follows = [&](std::int64_t outer, std::int64_t inner) {
      return outer == inner * dim.extent;
    };
    BatchDim* const last = s.batch.empty() ? nullptr : &s.batch.back();
    if (last != nullptr && follows(last->a, dim.a) && follows(last->b, dim.b) &&
        follows(last->c, dim.c))
      *last = {last->extent * dim.extent, dim.a, dim.b, dim.c};
    else
      s.batch.push_back(dim);
  }
}

}  // namespace

std::int64_t EinsumPlan::extent_of(const std::string& letters) const {
  std::int64_t product = 1;
  for (char l : letters) product *= extents.at(l);
  return product;
}

std::vector<std::int64_t> strides_of(const EinsumPlan& plan, const std::string& layout,
                                     const std::string& order) {
  std::vector<std::int64_t> strides;
  for (char l : order) {
    const std::size_t at = layout.find(l);
    strides.push_back(at == std::string::npos ? 0 : plan.extent_of(layout.substr(at + 1)));
  }
  return strides;
}

std::string stored_letters(const EinsumPlan& plan, const std::string& equation, int input) {
  const Equation e = split(equation);
  return filtered(input == 0 ? e.x : e.y, [&](char l) { return plan.extents.at(l) != 1; });
}

std::vector<std::int64_t> summed_dims(const std::string& equation, int input) {
  const Equation e = split(equation);
  const std::string &own = input == 0 ? e.x : e.y, &other = input == 0 ? e.y : e.x;
  std::vector<std::int64_t> dims;
  for (std::size_t d = 0; d < own.size(); ++d)
    if (has(other, own[d]) && !has(e.z, own[d])) dims.push_back(static_cast<std::int64_t>(d));
  return dims;
}

std::vector<std::int64_t> extents_of(const EinsumPlan& plan, const std::string& letters) {
  std::vector<std::int64_t> extents;
  for (char l : letters) extents.push_back(plan.extents.at(l));
  return extents;
}

EinsumPlan plan_einsum(const std::string& text, const std::vector<std::int64_t>& x,
                       const std::vector<std::int64_t>& y, const std::vector<std::int64_t>& z,
                       const EinsumNeeds& needs) {
  EinsumPlan plan;
  const Equation e = split(text);
  read_extents(plan, e.x, x);
  read_extents(plan, e.y, y);
  const std::size_t known = plan.extents.size();
  read_extents(plan, e.z, z);
  invariant(plan.extents.size() == known, "einsum: \"{}\" has a result letter that no input has",
            text);
  const auto visible = [&](const std::string& letters) {
    return filtered(letters, [&](char l) { return plan.extents.at(l) != 1; });
  };
  const auto operand = [&](const std::string& own, const std::string& other) {
    const auto shared = [&](char l) { return has(other, l) || has(e.z, l); };
    return EinsumOperand{filtered(visible(own), shared),
                         filtered(visible(own), [&](char l) { return !shared(l); }),
                         {}};
  };
  plan.a = operand(e.x, e.y);
  plan.b = operand(e.y, e.x);
  plan.c = visible(e.z);
  plan.swapped = !plan.c.empty() && !has(plan.b.layout, plan.c.back());
  if (plan.swapped) std::swap(plan.a, plan.b);
  const Roles roles = choose_roles(plan, needs.fixed_sums);
  choose_layouts(plan, roles, needs.one_batch);
  fill_shape(plan, roles);
  return plan;
}

}  // namespace alpa::kernels
