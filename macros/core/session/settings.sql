{#-
    Return the settings of the session, as a dict of texts; those that were never set are missing. SET itself takes a comment behind it,
    such as dbt's query comment, for a part of it.
-#}
{% macro read_settings() %}
    {%- set settings = {} -%}
    {%- for row in dbt_backfill.run_table('read the settings', "execute immediate 'set'") -%}
        {%- do settings.update({row[0]: row[1]}) -%}
    {%- endfor -%}
    {{ return(settings) }}
{% endmacro %}


{#- Return the settings that are compared only where the query depends on them, see find_used_settings: they are often set. -#}
{% macro common_settings() %}
    {{ return(['spark.sql.session.timeZone', 'spark.sql.ansi.enabled', 'spark.sql.ansi.doubleQuotedIdentifiers']) }}
{% endmacro %}


{#-
    Return a SQL map of texts with the session's settings that give a query other values. No function returns a setting, so most are found
    by what they do. A setting under which the same rows only fail or do not, such as mapKeyDedupPolicy, is none of these: whatever was
    merged under it is what the query gives.

    Arguments:
      used (list): those of common_settings that it shall have; none for all of them.
-#}
{% macro settings_expression(used=none) %}
    {%- set is_ansi = "typeof(coalesce(1, '1')) <> 'string'" -%}
    {%- set is_legacy_parser = "date_format(timestamp_micros(1000), 'SSSS') = '0001'" -%}
    {%- set expressions = {
        'spark.sql.session.timeZone': 'current_timezone()',
        'spark.sql.ansi.enabled': is_ansi,
        'spark.sql.ansi.doubleQuotedIdentifiers': "typeof(transform(array(1), a -> \"a\")) = 'array<int>'",
        'spark.sql.timestampType': "if(typeof(timestamp'2000-01-01 00:00:00') = 'timestamp', 'TIMESTAMP_LTZ', 'TIMESTAMP_NTZ')",
        'spark.sql.parser.escapedStringLiterals': "length('\\n') = 2",
        'spark.sql.decimalOperations.allowPrecisionLoss':
            "typeof(cast(1 as decimal(38, 18)) * cast(1 as decimal(38, 18))) = 'decimal(38,6)'",
        'spark.sql.jsonGenerator.ignoreNullFields': "to_json(named_struct('a', cast(null as int))) = '{}'",
        'spark.sql.json.enablePartialResults': "from_json('{\"a\":{\"b\":\"x\",\"c\":1}}', 'a struct<b: int, c: int>').a is not null",
        'spark.sql.chunkBase64String.enabled': "length(base64(cast(repeat('a', 60) as binary))) > 80",
        'spark.sql.preserveCharVarcharTypeInfo': "length(cast('a' as char(2))) = 2",
        'spark.sql.function.concatBinaryAsString': "typeof(concat(X'61', X'61')) = 'string'",
        'spark.sql.function.eltOutputAsString': "typeof(elt(1, X'61', X'61')) = 'string'",
        'spark.sql.legacy.timeParserPolicy': 'if(' ~ is_legacy_parser ~ ", 'LEGACY', 'CORRECTED')",
        'spark.sql.columnNameOfCorruptRecord':
            "if(from_json('{', '_corrupt_record string')._corrupt_record is not null, '_corrupt_record', 'another')",
        'spark.sql.variant.allowDuplicateKeys': "try_parse_json('{\"a\":1,\"a\":2}') is not null",
        'spark.sql.legacy.allowNegativeScaleOfDecimal': "typeof(1e1BD) <> 'decimal(2,0)'",
        'spark.sql.legacy.castComplexTypesToString.enabled': "cast(array(null) as string) = '[]'",
        'spark.sql.legacy.collationAwareHashFunctions': "hash('a' collate utf8_lcase) = hash('A' collate utf8_lcase)",
        'spark.sql.legacy.consecutiveStringLiterals.enabled': "length('a''a') = 2",
        'spark.sql.legacy.createEmptyCollectionUsingStringType': "typeof(array()) = 'array<string>'",
        'spark.sql.legacy.csv.enableDateTimeParsingFallback': "if(from_csv('GMT2000-01-01', 'a date').a is null, 'false', if("
            ~ is_legacy_parser ~ " or from_csv('2000-1-1', 'a date', map('dateFormat', 'yyyy/MM/dd')).a is null, 'unset', 'true'))",
        'spark.sql.legacy.disableMapKeyNormalization': "to_json(map(double('-0.0'), 1)) <> '{\"0.0\":1}'",
        'spark.sql.legacy.exponentLiteralAsDecimal.enabled': "typeof(1e0) <> 'double'",
        'spark.sql.legacy.followThreeValuedLogicInArrayExists': 'exists(array(cast(null as boolean)), x -> x) is null',
        'spark.sql.legacy.interval.enabled': "cast(interval '1' day as string) = '1 days'",
        'spark.sql.legacy.literal.pickMinimumPrecision': "typeof(1S * 1.5) = 'decimal(4,1)'",
        'spark.sql.legacy.lpadRpadAlwaysReturnString': "typeof(lpad(X'61', 2)) = 'string'",
        'spark.sql.legacy.negativeIndexInArrayInsert': 'element_at(array_insert(array(1), -1, 2), 1) = 2',
        'spark.sql.legacy.nullValueWrittenAsQuotedEmptyStringCsv': "coalesce(to_csv(named_struct('a', cast(null as string))) <> '', false)",
        'spark.sql.legacy.sizeOfNull': 'size(cast(null as array<int>)) is not null or ' ~ is_ansi,
        'spark.sql.legacy.truncateForEmptyRegexSplit': "element_at(split('abc', '', 2), 2) = 'b'",
        'spark.sql.legacy.typeCoercion.datetimeToString.enabled': "date'2000-01-01' <> '2000-1-1'",
    } -%}
    {%- set entries = [] -%}
    {%- for name, expression in expressions.items() if used is none or name in used or name not in dbt_backfill.common_settings() -%}
        {%- do entries.append("'" ~ name ~ "', cast(" ~ expression ~ ' as string)') -%}
    {%- endfor -%}
    {{ return('map(' ~ entries | join(', ') ~ ')') }}
{% endmacro %}


{#-
    Return those of the session's settings, as read_state returned them, that a plan records: of common_settings only what is `used`. None
    where they were not read, as in a first run.
-#}
{% macro get_settings_to_record(settings, used) %}
    {%- if settings is none -%} {{ return(none) }} {%- endif -%}
    {%- set recorded = {} -%}
    {%- for name, value in settings.items() if name in used or name not in dbt_backfill.common_settings() -%}
        {%- do recorded.update({name: value}) -%}
    {%- endfor -%}
    {{ return(recorded) }}
{% endmacro %}


{#-
    Return the first of the session's settings, as read_state returned them, that is not what it was when a plan was made: {'setting',
    'words': to name it in a message, 'was', 'is'}; none if there is none.
-#}
{% macro find_changed_setting(plan, settings) %}
    {%- for name, was in (plan.get('settings') or {}).items() if name in settings and settings[name] != was -%}
        {%- set words = "the session's time zone" if name == 'spark.sql.session.timeZone' else name -%}
        {%- set depends = 'depends' if name in dbt_backfill.common_settings() else 'may depend' -%}
        {{ return({'setting': name, 'words': words ~ ', on which its query ' ~ depends ~ ',', 'was': was, 'is': settings[name]}) }}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#- Refuse a session in which a backslash is no escape: the literals of all statements here rely on it. -#}
{% macro check_string_literals(settings, mv=none) %}
    {%- set name = 'spark.sql.parser.escapedStringLiterals' -%}
    {%- if settings.get(name, 'false') | lower == 'true' -%}
        {%- do dbt_backfill.refuse(
            'the session has ' ~ name ~ ' on, under which the texts in its statements mean something else',
            'Set it to false for dbt (server_side_parameters, or the Spark server), and write the backslashes of the query twice', mv=mv
        ) -%}
    {%- endif -%}
{% endmacro %}


{#-
    Refuse a session that must not be merged in. Its settings are read only where what the state was read with leaves them in doubt, which
    spares most runs a statement.

    Arguments:
      state (dict): as read_state returned it: 'caches', of the catalogs, 'txn_app_id' and 'refused_setting'.
      settings (dict): as read_settings returned them, none if this run has not read them.
-#}
{% macro check_settings_in_doubt(backfill, state, settings=none) %}
    {%- set may_cache = dbt_backfill.get_uncached_relations(backfill) != []
        and (state.get('caches') is none or state.caches | reject('equalto', 'false') | list != []) -%}
    {%- set may_skip = state.get('txn_app_id', '') != '' and backfill.options.file_format == 'delta' -%}
    {%- if state.get('refused_setting') -%} {%- do dbt_backfill.refuse_setting(backfill, state.refused_setting) -%} {%- endif -%}
    {%- if not may_cache and not may_skip -%} {{ return(none) }} {%- endif -%}
    {%- set settings = dbt_backfill.read_settings() if settings is none else settings -%}
    {%- if may_cache -%} {%- do dbt_backfill.check_catalog_cache(backfill, settings) -%} {%- endif -%}
    {%- if may_skip -%} {%- do dbt_backfill.check_idempotent_writes(backfill, settings) -%} {%- endif -%}
{% endmacro %}


{#-
    Refuse to make an MV in a session in which that cannot work, or in which a MERGE into a Delta table adds the source's other columns
    to it: some of those that come with the changes are ours. Only the first run asks, to spare the others a statement.
-#}
{% macro check_settings(backfill, settings) %}
    {%- do dbt_backfill.check_string_literals(settings, backfill.get('name')) -%}
    {%- for name, refused in dbt_backfill.refused_settings().items() if modules.re.fullmatch(refused.value, settings.get(name, '') | lower) -%}
        {%- do dbt_backfill.refuse_setting(backfill, name) -%}
    {%- endfor -%}
    {%- set name = 'spark.databricks.delta.schema.autoMerge.enabled' -%}
    {%- if backfill.options.file_format == 'delta' and settings.get(name, 'false') | lower == 'true' -%}
        {%- do dbt_backfill.refuse(
            'the session has ' ~ name ~ ' on, under which a MERGE would add columns to ' ~ backfill.mv.render(),
            'Set it to false for dbt (server_side_parameters, or the Spark server)', mv=backfill.get('name')
        ) -%}
    {%- endif -%}
{% endmacro %}


{#-
    Return the settings that are refused, and that no expression shows: {name: {
      'value': a regular expression of the texts, in lower case, with which it is refused,
      'is': how a message calls that, 'instead': the text to set, 'does': what Spark does then, as the end of a sentence
    }}
-#}
{% macro refused_settings() %}
    {%- set leaves_out = 'Spark leaves out rows, and says nothing: those of files that ' -%}
    {%- set on, off = {'value': 'true', 'is': 'on', 'instead': 'false'}, {'value': 'false', 'is': 'off', 'instead': 'true'} -%}
    {#- Any duration but none. A fence that reads an old state lets a stale run pass. -#}
    {%- set more = {'value': '.*[1-9].*', 'is': 'set', 'instead': '0'} -%}
    {{ return({
        'spark.sql.files.ignoreMissingFiles': dict(on, does=leaves_out ~ 'are gone'),
        'spark.sql.files.ignoreCorruptFiles': dict(on, does=leaves_out ~ 'it cannot read'),
        'spark.sql.parser.quotedRegexColumnNames': dict(on, does='Spark takes a name in backticks for a pattern of names'),
        'spark.sql.readSideCharPadding': dict(off, does='Spark does not pad what it reads of a char(n)'),
        'spark.sql.legacy.charVarcharAsString': dict(on, does='Spark pads neither what it reads of a char(n) nor what that is compared with'),
        'spark.databricks.delta.stalenessLimit': dict(more, does='Spark may read a Delta table as it was before the last commits'),
    }) }}
{% endmacro %}


{#- Refuse the session because of one of refused_settings. -#}
{% macro refuse_setting(backfill, name) %}
    {%- set refused = dbt_backfill.refused_settings()[name] -%}
    {%- do dbt_backfill.refuse(
        'the session has ' ~ name ~ ' ' ~ refused.is ~ ', under which ' ~ refused.does,
        'Set it to ' ~ refused.instead ~ ' for dbt (server_side_parameters, or the Spark server)', mv=backfill.get('name')
    ) -%}
{% endmacro %}


{#-
    Return statements of a script that read the name of a setting that is refused into its variable `__bf_refused_setting`; null if none is.
    Spark puts a setting in braces into a statement's text, and of a boolean one fails where it is not set.
-#}
{% macro get_refused_setting_statements() -%}
    {%- for name, refused in dbt_backfill.refused_settings().items() %}
    {%- set sql = "select if(lower('${" ~ name ~ "}') rlike '^(" ~ refused.value ~ ")$', '" ~ name ~ "', null)" %}
    begin
        declare exit handler for sqlexception begin end;
        execute immediate {{ dbt_backfill.string_literal(sql) }} into __bf_setting;
        set __bf_refused_setting = coalesce(__bf_refused_setting, __bf_setting);
    end;
    {%- endfor %}
{%- endmacro %}


{#-
    Refuse a session in which Delta takes statements for repetitions: under `txnAppId` and `txnVersion` the second MERGE into a table does
    nothing and says nothing.
-#}
{% macro check_idempotent_writes(backfill, settings) %}
    {%- set name = 'spark.databricks.delta.write.txnAppId' -%}
    {%- if backfill.options.file_format == 'delta' and settings.get(name) -%}
        {%- do dbt_backfill.refuse(
            'the session has ' ~ name ~ ' set, under which Delta skips all writes to a table but the first',
            'Unset it, and spark.databricks.delta.write.txnVersion, for dbt (server_side_parameters, or the Spark server)',
            mv=backfill.get('name')
        ) -%}
    {%- endif -%}
{% endmacro %}


{#- Refuse to make an MV in an Iceberg catalog that overrides a table property that exactness needs. Only the first run asks. -#}
{% macro check_table_overrides(backfill, settings) %}
    {%- if backfill.options.file_format != 'iceberg' -%} {{ return(none) }} {%- endif -%}
    {%- set catalog = dbt_backfill.get_catalog(backfill.mv) or settings.get('spark.sql.defaultCatalog', 'spark_catalog') -%}
    {%- for name, value in dbt_backfill.exact_table_properties('iceberg').items() -%}
        {%- set setting = 'spark.sql.catalog.' ~ catalog ~ '.table-override.' ~ name -%}
        {%- if settings.get(setting, value) | lower != value -%}
            {%- do dbt_backfill.refuse(
                'the session has ' ~ setting ~ ' = ' ~ settings[setting] ~ ', under which barriers are not exact',
                'Set it to ' ~ value ~ ', or leave it out', mv=backfill.get('name')
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{#-
    Refuse an Iceberg catalog that caches its tables: a session would not see for 30 s what another one committed, so that a run would use
    a stale state, a fence let a stale run pass, or an upstream be behind its change table.
-#}
{% macro check_catalog_cache(backfill, settings) %}
    {%- for relation in dbt_backfill.get_uncached_relations(backfill) -%}
        {%- set catalog = dbt_backfill.get_catalog(relation) or settings.get('spark.sql.defaultCatalog', 'spark_catalog') -%}
        {%- set name = 'spark.sql.catalog.' ~ catalog ~ '.cache-enabled' -%}
        {%- if settings.get(name, 'true') | lower != 'false' -%}
            {%- do dbt_backfill.refuse(
                'the Iceberg catalog ' ~ catalog ~ ' of ' ~ relation.render() ~ ' caches tables, so a run would not see what another one committed',
                'Set ' ~ name ~ ' to false where the catalog is configured (server_side_parameters, or the Spark server)',
                mv=backfill.get('name')
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{#- Return the relations whose catalogs must not cache. -#}
{% macro get_uncached_relations(backfill) %}
    {%- set relations = [] -%}
    {%- if backfill.options.file_format == 'iceberg' -%} {%- do relations.append(backfill.mv) -%} {%- endif -%}
    {%- set followed = [backfill.upstream, backfill.feed] if backfill.feed else [(backfill.upstream or {}).get('feed')] -%}
    {%- for table in followed if table and table.kind and dbt_backfill.upstream_traits(table).may_be_cached -%}
        {%- do relations.append(table.relation) -%}
    {%- endfor -%}
    {{ return(relations) }}
{% endmacro %}


{#-
    Return statements of a script that read the `cache-enabled` of each relation's catalog into its variable `caches`. No function returns a
    setting, but Spark puts those in braces into a statement's text; one that is not set is empty.
-#}
{% macro get_catalog_cache_statements(relations) -%}
    declare caches array<string> = array();
    declare cache string;
    {%- for relation in relations %}
    {%- set catalog = dbt_backfill.get_catalog(relation) %}
    set cache = concat('select lower(\'\u0024{spark.sql.catalog.', {{ dbt_backfill.string_literal(catalog) if catalog else 'current_catalog()' }}, '.cache-enabled}\')');
    execute immediate cache into cache;
    set caches = array_append(caches, cache);
    {%- endfor %}
{%- endmacro %}
