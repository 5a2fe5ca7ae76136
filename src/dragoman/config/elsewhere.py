"""What other toolkits call a setting: where it has another name here (`Setting.elsewhere`), or is something else.

The toolkits are OpenNMT-py, JoeyNMT, fairseq, Marian, Sockeye and the trainer of Hugging Face, with PyTorch's usual
names. What carries its value over stands in the setting itself; here stands what needs a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.config.near import near_names

# Names, blanks between them, and what is to be said; settings with their section, and a value where only one will do.
ANSWERS = (
    ("fp16 half_precision_training use_amp amp mixed_precision half float16 fp16_opt_level",
     "there is no half precision of 16-bit floats (fp16): training.precision = bfloat16"),
    ("bf16 use_bf16 bfloat16 memory_efficient_bf16",
     "products in bfloat16: training.precision = bfloat16; by itself the faster one on the device is taken"),
    ("fp32 float32 tf32 model_dtype dtype torch_dtype",
     "training.precision = float32, or bfloat16"),
    ("gpu gpus use_gpu cuda use_cuda devices gpu_ranks gpuid gpu_id device_ids cuda_device accelerator",
     "training.device = cuda, or leave it out: a GPU is used if there is one"),
    ("no_cuda use_cpu cpu cpu_only disable_cuda",
     "training.device = cpu"),
    ("world_size distributed_world_size num_gpus n_gpu num_devices local_rank ddp ddp_backend deepspeed "
     "distributed_no_spawn num_nodes n_nodes sync_sgd",
     "`dragoman train --devices N` trains in several processes, as torchrun starts them"),
    ("batch_size per_device_train_batch_size train_batch_size mini_batch batch_sentences max_sentences_per_batch "
     "batch_type batch_sentence_multiple_of mini_batch_size",
     "batches are counted in tokens, not in sentences: training.batch_tokens"),
    ("mini_batch_fit workspace maxi_batch maxi_batch_sort bucket_size pool_factor required_batch_size_multiple "
     "group_by_length auto_find_batch_size",
     "batches are packed by length by themselves; training.batch_tokens says how large they are"),
    ("per_device_eval_batch_size eval_batch_size valid_batch_size valid_mini_batch val_batch_size batch_size_valid",
     "batches of held-out pairs are chosen; validation.max_sentences limits how many are translated"),
    ("betas adam_betas optimizer_betas optimizer_params",
     "training.adam_beta1 and training.adam_beta2, each on its own"),
    ("warmup_ratio lr_warmup_ratio",
     "warm-up is counted in updates: training.warmup_steps"),
    ("lr_decay_inv_sqrt lr_decay lr_decay_strategy decay_factor decrease_factor learning_rate_decay lr_shrink min_lr "
     "stop_min_lr learning_rate_min learning_rate_reduce_factor learning_rate_reduce_num_not_improved plateau "
     "start_decay_steps decay_steps lr_decay_start lr_decay_freq lr_scheduler_kwargs num_cycles",
     "the learning rate goes by training.schedule, with training.learning_rate as its peak and training.warmup_steps"),
    ("clip_grad_val clip_value",
     "gradients are clipped by their norm, not by value: training.clip_norm"),
    ("epochs num_train_epochs max_epoch after_epochs max_num_epochs max_epochs num_epochs n_epochs",
     "{epochs}"),
    ("after",
     "training.max_steps counts updates, training.max_minutes time"),
    ("time_limit max_time max_hours stop_time_hours max_seconds max_duration timeout walltime wall_time",
     "a limit of time is in minutes: training.max_minutes"),
    ("min_steps min_updates min_epochs min_num_epochs min_num_updates",
     "there is no least length; training.patience says how many validations without a better one end a run"),
    ("exponential_smoothing average_decay ema use_ema model_ema ema_rate store_ema",
     "a moving average of the weights is judged and kept by itself; training.ema_decay says how far it reaches back"),
    ("checkpoint_averaging average_checkpoints avg_checkpoints n_average num_avg_ckpts",
     "training.average_last averages the last checkpoints when training ends, `dragoman average` later"),
    ("load_best_model_at_end best_model keep_best restore_best_weights overwrite_best greater_is_better",
     "the run directory holds the best model by validation.metric; nothing need be set"),
    ("push_to_hub hub_model_id hub_token hub_strategy",
     "nothing is uploaded; `dragoman bundle` copies what a repository of the model needs"),
    ("save_interval save_strategy save_per_epoch no_epoch_checkpoints no_save",
     "a checkpoint is written at each validation, or every so many updates: training.save_every"),
    ("validate_interval eval_strategy evaluation_strategy val_every_epoch check_val_every_n_epoch",
     "validation goes by updates: validation.every"),
    ("logging_strategy log_strategy no_progress_bar disable_tqdm log_format verbose loglevel log_level",
     "training.log_every says how often the log has a line; `train --quiet` tells nothing"),
    ("tie_embedding tied weight_tying weight_tying_type tie_weights tied_embeddings tied_embeddings_all tied_softmax "
     "share_embeddings share_decoder_embeddings share_all_embeddings share_decoder_input_output_embed "
     "tie_word_embeddings tied_embeddings_src share_decoder_input_output_embeddings",
     "model.tie_embeddings = all shares one matrix, decoder that of the target and the generator, none shares nothing"),
    ("layers num_layers n_layers n_layer nb_layers depth num_hidden_layers",
     "encoder and decoder are counted each: model.num_encoder_layers and model.num_decoder_layers"),
    ("normalize_before encoder_normalize_before decoder_normalize_before pre_norm prenorm norm_first",
     "model.norm = pre (before each sub-layer) or post (after it, as in the paper)"),
    ("transformer_preprocess transformer_postprocess transformer_postprocess_emb",
     "where layer norm stands is said by model.norm, dropout by model.dropout"),
    ("position_encoding positional_encoding pos_encoding transformer_train_positions encoder_learned_pos "
     "decoder_learned_pos learned_pos position_embeddings positional_embedding_type max_position_embeddings "
     "no_token_positional_embeddings position_encoding_type self_attn_type rope use_rope rotary rotary_embeddings",
     "model.positions = interleaved (the paper's sinusoids), rotary, relative or alibi; none are learned, none end"),
    ("max_relative_positions max_relative_position relative_positions relative_attention",
     "model.positions = relative, with model.relative_distance"),
    ("layerdrop encoder_layerdrop decoder_layerdrop layer_drop stochastic_depth",
     "there is no dropout of layers, but model.dropout, model.attention_dropout, model.activation_dropout, "
     "model.word_dropout"),
    ("arch architecture model_type encoder_type decoder_type is_encoder_decoder",
     "model.family says what kind of model it is: transformer is the encoder-decoder"),
    ("param_init param_init_glorot init_gain init_scale initializer_range weight_init embed_initializer",
     "model.init = xavier or depth-scaled"),
    ("gradient_checkpointing activation_checkpointing checkpoint_activations offload_activations",
     "there is none; a smaller training.batch_tokens with training.accumulate takes less memory"),
    ("guided_alignment guided_alignment_weight guided_alignment_cost lambda_align full_context_alignment "
     "alignment_layer",
     "training takes no alignments; `translate --alignments` reads them off the attention"),
    ("right_left right_to_left_model r2l reverse_target",
     "model.right_to_left learns both directions in one model"),
    ("data_weighting upsample upsample_primary",
     "data.weights says which share of an epoch each training file has, data.repeat how often it has each"),
    ("shuffle no_shuffle shuffle_in_ram shuffle_corpus data_seed dataloader_shuffle",
     "every epoch has an order of its own, drawn from training.seed"),
    ("num_workers dataloader_num_workers n_workers prefetch_factor dataloader_pin_memory num_loader_workers",
     "batches are made from prepared data, without worker processes; training.threads are for computing"),
    ("train_sets trainpref path_src path_tgt train_data train_paths",
     "data.source and data.target, or data.pairs (--source, --target, --pairs)"),
    ("valid_sets validpref valid_data validation_data dev_data",
     "data.dev_source and data.dev_target, or data.dev_pairs (--dev-source, --dev-target, --dev-pairs)"),
    ("max_length_crop max_seq_len max_seq_length max_sent_length max_sentence_length max_positions",
     "data.max_source_tokens and data.max_target_tokens for training, decoding.max_length for outputs"),
    ("max_len_a",
     "the limit of an output is source tokens x decoding.max_length_factor + decoding.max_length_offset"),
    ("max_len_b",
     "the limit of an output is source tokens x decoding.max_length_factor + decoding.max_length_offset"),
    ("bpe bpe_codes bpe_model src_bpe src_subword_model tgt_subword_model subword_model sentencepiece_model "
     "spm_model vocabs vocab vocab_file src_vocab tgt_vocab source_vocab_file srcdict tgtdict tokenizer_name "
     "tokenizer_file tokenizer_path",
     "`train` makes its tokenizer from the training text (tokenizer.kind, tokenizer.vocab_size); that of another model "
     "comes with its weights, by training.init_from"),
    ("src_subword_alpha tgt_subword_alpha sentencepiece_alphas spm_alpha src_subword_nbest subword_regularization",
     "training.bpe_dropout (of bpe) or training.unigram_alpha (of unigram) draw subwords anew in each epoch"),
    ("lowercase lower lc do_lower_case uncased cased case truecase truecaser all_caps_every english_title_case_every",
     "text is learned as it is written: change its case in the files, before training and before translating"),
    ("load_model load_from pretrained pretrained_model model_name_or_path finetune_from_model finetune_from "
     "from_pretrained warm_start_from initial_model",
     "training.init_from (--init-from) starts from the weights of another run"),
    ("train_from resume resume_from restore_file resume_from_checkpoint continue_training reset_optimizer reset_optim "
     "ckpt_path no_reload",
     "`train --resume` goes on with a run; training.init_from begins a new one from its weights"),
    ("output_dir model_dir save_model save_dir save_data output run_dir log_dir logdir exp_dir experiment_dir",
     "the run directory is given as --out"),
    ("overwrite overwrite_output_dir exist_ok force overwrite_output",
     "a run is never overwritten: take another directory (--out), or go on with it (`train --resume`)"),
    ("report_to tensorboard_logdir tensorboard_log_dir tensorboard_log use_tensorboard log_tensorboard tb_log_dir",
     "training.tensorboard = true writes for TensorBoard, into the run directory"),
    ("wandb use_wandb wandb_project mlflow comet clearml aim neptune",
     "losses and scores are in metrics.jsonl of the run, as JSON; training.tensorboard = true is for TensorBoard too"),
    ("predict_with_generate eval_bleu do_eval do_predict eval_with_generate",
     "held-out sources are translated at every validation; validation.search says how"),
    ("eval_bleu_detok eval_bleu_args sacrebleu sacrebleu_cfg sacrebleu_tokenize bleu_tokenizer",
     "validation.tokenize names the tokenizer of BLEU"),
    ("coverage_penalty coverage_beta repetition_penalty repetition_penalty_factor stepwise_penalty "
     "unknown_penalty word_penalty unkpen",
     "there is no such penalty; decoding.no_repeat_ngram and decoding.loop_guard keep outputs from repeating"),
    ("diverse_beam_groups diversity_penalty num_beam_groups diverse_beam_strength beam_search_diversity_rate",
     "outputs that differ come by decoding.sampling, with decoding.temperature, decoding.top_k or decoding.top_p"),
    ("attn_implementation flash_attention use_flash use_sdpa",
     "attention takes the fastest kernel there is by itself"),
    ("lora use_lora adapter adapters peft use_peft peft_config",
     "training.lora_rank trains adapters beside the weights of training.init_from"),
    ("freeze_encoder freeze_decoder freeze_embeddings freeze_backbone fixed_param_strategy",
     "training.freeze names parts that stay as they are: encoder, decoder, embeddings, or dotted names"),
    ("update_vocab",
     "training.extend_vocabulary appends words to the vocabulary of training.init_from"),
)  # fmt: skip
_EPOCHS = (
    "a run is counted in whole epochs by training.max_epochs",
    "a run is counted in updates: training.max_steps; its report says how many an epoch has",
)


def answers() -> dict[str, str]:
    """Return what is said of each name that other toolkits use and that is no setting by another name here."""
    from dragoman.config.tree import SECTIONS

    ours = {name for section in SECTIONS.values() for name in section.settings}
    epochs = _EPOCHS[0 if "max_epochs" in ours else 1]
    found = {name: sentence.format(epochs=epochs) for names, sentence in ANSWERS for name in names.split()}
    return {name: sentence for name, sentence in found.items() if name not in ours}


def foreign_names() -> dict[str, str]:
    """Return what other toolkits call our settings: their name -> ours, with its section."""
    from dragoman.config.tree import all_settings

    return {name: one.dotted for one in all_settings() for name in one.elsewhere}


def simplified(name: str) -> str:
    """Return a name as tables have it: `--Grad-Clip` as `grad_clip`."""
    return name.strip().lower().lstrip("-").replace("-", "_")


def answer_for(name: str, known: Iterable[str]) -> str | None:
    """Return what to say to somebody who gave an unknown name of a setting; None if nothing is sure.

    Args:
        name: what was given, without a section.
        known: names of ours that a slip may have been meant for, as they are to be shown.
    """
    key = simplified(name)
    if ours := foreign_names().get(key):
        return f"{name!r} is called {ours!r} here"
    if told := answers().get(key):
        return told
    by_name = {one.rpartition(".")[2]: one for one in known}
    near = [repr(by_name[one]) for one in near_names(key, by_name)]
    return f"did you mean {' or '.join(near)}?" if near else None
