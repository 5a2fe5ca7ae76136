// Fills in the table of training's kernels for the instruction set that the including file is compiled for.
#pragma once

#include "training_attention.h"
#include "training_rows.h"

namespace {

const dragoman::TrainingKernels* training_table() {
    static const dragoman::TrainingKernels kernels = {
        W,
        add_norm_rows,
        add_norm_back_rows,
        relu_rows,
        relu_back_rows,
        add_columns,
        attention_room,
        attend_sentence,
        attend_sentence_back,
        cross_entropy_row,
        agreement_row,
    };
    return &kernels;
}

}  // namespace
