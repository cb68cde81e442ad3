/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/changes.h: the words of an image that the host changes while packets flow
 * (Device::change_words()). They stand behind all others, all 0 at first. On the CPU, where generations share
 * an image, each has its own (xg_batch.changes).
 *
 * A stage that asks lists of names (trait `names`) has XG_CHANGES_WORDS of them: what has become of names
 * since the lists were compiled. They stand in a set as its lists' names do (hashed_set.h), and there a stage
 * looks first.
 */
#ifndef XDPGPU_STAGES_CHANGES_H
#define XDPGPU_STAGES_CHANGES_H

#include "gpu/stages/view.h"

#define XG_CHANGES_NAMES 65536u /* names at most */
#define XG_CHANGES_SLOTS 0u     /* of the set, 0: there are no changes */
#define XG_CHANGES_DEEPEST 1u   /* labels of the name that has most */
#define XG_CHANGES_SET 4u       /* the set, of XG_CHANGES_MOST_SLOTS at most */
#define XG_CHANGES_MOST_SLOTS 87382u
#define XG_CHANGES_WORDS 349536u /* a multiple of 32 */

/* Their first word. */
XG_FN xg_words xg_changes_of(xg_batch b) {
#ifndef XG_GLSL
  if (b.changes.v != nullptr) return b.changes;
#endif
  return XG_AT(xg_words, b.image, u64(b.image.v[XG_IMAGE_CHANGES_AT]) * u64(4u));
}

#endif
