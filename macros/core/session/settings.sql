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


{#-
    Return a SQL map of the three settings that a plan records only where the query depends on them, see find_used_settings: they are often
    set, and their defaults are those of the machine. No function returns a setting but the time zone; the other two are found by what they do.
-#}
{% macro common_settings_sql() -%}
    map(
        'spark.sql.session.timeZone', cast(current_timezone() as string),
        'spark.sql.ansi.enabled', cast(typeof(coalesce(1, '1')) <> 'string' as string),
        'spark.sql.ansi.doubleQuotedIdentifiers', cast(typeof(transform(array(1), a -> "a")) = 'array<int>' as string)
    )
{%- endmacro %}


{#-
    Return the default of a setting that gives a query other values, or other names to its columns; none of any other setting. A setting under
    which the same rows only fail or do not, such as mapKeyDedupPolicy, is none of these: whatever was merged under it is what the query gives.
    tests/recorded/spark_settings.json says it of each setting that Spark has, and test_functions_of_spark.py that none is missing there.
-#}
{% macro default_of_result_setting(name) %}
    {%- set on = [
        'analyzer.preferColumnOverLcaInArrayIndex', 'assumeAnsiFalseIfNotPersisted.enabled', 'chunkBase64String.enabled',
        'csv.parser.columnPruning.enabled', 'decimalOperations.allowPrecisionLoss', 'files.supportSecondOffsetFormat',
        'icu.caseMappings.enabled', 'json.enableExactStringParsing', 'json.enablePartialResults', 'jsonGenerator.ignoreNullFields',
        'jsonGenerator.writeNullIfWithDefaultValue', 'lateralColumnAlias.enableImplicitResolution',
        'legacy.execution.pandas.groupedMap.assignColumnsByName', 'legacy.followThreeValuedLogicInArrayExists',
        'legacy.histogramNumericPropagateInputType', 'legacy.literal.pickMinimumPrecision', 'legacy.replaceDatabricksSparkAvro.enabled',
        'legacy.setCommandRejectsSparkCoreConfs', 'legacy.sizeOfNull', 'legacy.viewSchemaBindingMode', 'legacy.viewSchemaCompensation',
        'mapZipWithUsesJavaCollections', 'optimizer.enableCsvExpressionOptimization', 'optimizer.enableJsonExpressionOptimization',
        'parquet.inferTimestampNTZ.enabled', 'parquet.int96AsTimestamp', 'runCollationTypeCastsBeforeAliasAssignment.enabled',
    ] -%}
    {%- set off = [
        'analyzer.singlePassResolver.enabled', 'analyzer.singlePassResolver.enabledTentatively',
        'analyzer.singlePassResolver.returnSinglePassResultInDualRun', 'caseSensitive', 'execution.pythonUDF.arrow.enabled',
        'execution.pythonUDF.pandas.intToDecimalCoercionEnabled', 'function.concatBinaryAsString', 'function.eltOutputAsString',
        'parquet.binaryAsString', 'parquet.fieldId.read.enabled', 'parquet.fieldId.read.ignoreMissing', 'parquet.ignoreVariantAnnotation',
        'parquet.int96TimestampConversion', 'parquet.reader.respectUnknownTypeAnnotation.enabled', 'parser.escapedStringLiterals',
        'preserveCharVarcharTypeInfo', 'stableDerivedColumnAlias.enabled', 'variant.allowDuplicateKeys',
    ] -%}
    {%- set others = {
        'avro.datetimeRebaseModeInRead': 'CORRECTED', 'avro.datetimeRebaseModeInWrite': 'CORRECTED',
        'columnNameOfCorruptRecord': '_corrupt_record', 'legacy.csv.enableDateTimeParsingFallback': 'unset',
        'legacy.ctePrecedencePolicy': 'CORRECTED', 'legacy.json.enableDateTimeParsingFallback': 'unset',
        'legacy.nullInEmptyListBehavior': 'unset', 'legacy.timeParserPolicy': 'CORRECTED', 'parquet.datetimeRebaseModeInRead': 'CORRECTED',
        'parquet.datetimeRebaseModeInWrite': 'CORRECTED', 'parquet.int96RebaseModeInRead': 'CORRECTED',
        'parquet.int96RebaseModeInWrite': 'CORRECTED', 'timestampType': 'TIMESTAMP_LTZ',
    } -%}
    {%- set short = name[10:] if name.startswith('spark.sql.') else '' -%}
    {%- if short in on -%} {{ return('true') }} {%- endif -%}
    {%- if short in off -%} {{ return('false') }} {%- endif -%}
    {{ return(others.get(short, 'false' if short.startswith('legacy.') else none)) }}
{% endmacro %}


{#-
    Return those of the settings that give a query other values: {name: text}. Of the ones of common_settings_sql only those whose names are
    in `common`: all of them for a state, and for a plan those that its query depends on.
-#}
{% macro get_result_settings(settings, common) %}
    {%- set found = {} -%}
    {%- for name, value in settings.items() if name in common or dbt_backfill.default_of_result_setting(name) is not none -%}
        {%- do found.update({name: value}) -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}


{#- Return the result settings by a statement of their own. A run that reads a state asks for the common ones with it. -#}
{% macro read_result_settings(settings) %}
    {%- set common = dbt_backfill.run_json('read the common settings', 'select to_json(' ~ dbt_backfill.common_settings_sql() ~ ')')[0] -%}
    {{ return(dbt_backfill.get_result_settings(dict(settings, **common), common)) }}
{% endmacro %}


{#-
    Return the first of the session's settings, as get_result_settings returned them, that is not what it was when a plan was made: {'setting',
    'words': to name it in a message, 'was', 'is'}; none if there is none. A setting that is not set has its default. EXCEPTION counts as the
    default: under it Spark gives the same value, or fails.
-#}
{% macro find_changed_setting(plan, settings) %}
    {%- set recorded = plan.get('settings') -%}
    {%- if recorded is none -%} {{ return(none) }} {%- endif -%}
    {%- set now, corrupt = dbt_backfill.get_result_settings(settings, recorded), 'spark.sql.columnNameOfCorruptRecord' -%}
    {#- An earlier version recorded 29 settings, set or not, and no others. It recorded three of them in another form. -#}
    {%- set is_of_earlier_version = 'spark.sql.legacy.typeCoercion.datetimeToString.enabled' in recorded
        and 'spark.sql.parser.escapedStringLiterals' in recorded -%}
    {%- set in_another_form = [corrupt, 'spark.sql.legacy.sizeOfNull', 'spark.sql.legacy.csv.enableDateTimeParsingFallback'] -%}
    {%- set compared = recorded.keys() | reject('in', in_another_form) | list if is_of_earlier_version else dict(recorded, **now) -%}
    {%- for name in compared -%}
        {%- set default, values = dbt_backfill.default_of_result_setting(name), [] -%}
        {%- for text in [recorded.get(name), now.get(name)] -%}
            {%- do values.append(default if default is not none and (text is none or text | upper == 'EXCEPTION') else text or '') -%}
        {%- endfor -%}
        {%- if values[0] != values[1] and (name == corrupt or values[0] | lower != values[1] | lower) -%}
            {%- set words = "the session's time zone" if name == 'spark.sql.session.timeZone' else name -%}
            {%- set depends = 'may depend' if default is not none else 'depends' -%}
            {{ return({'setting': name, 'words': words ~ ', on which its query ' ~ depends ~ ',', 'was': values[0], 'is': values[1]}) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#-
    Refuse a session in which an MV is not made or refreshed exactly. Each run asks before it reads its state: under some of these
    settings Spark would show it an older one.

    Arguments:
      settings (dict): as read_settings returned them.
-#}
{% macro check_settings(backfill, settings) %}
    {#- 'value': a regular expression of the texts, in lower case, with which a setting is refused; 'is': how a message calls that; 'does': what
        Spark does then; 'to_do': the hint; 'format': of the MVs for which it is refused; absent for all. -#}
    {%- set leaves_out = 'Spark leaves out rows, and says nothing: those of files that ' -%}
    {%- set for_dbt = ' for dbt (server_side_parameters, or the Spark server)' -%}
    {%- set on = {'value': 'true', 'is': 'on', 'to_do': 'Set it to false' ~ for_dbt} -%}
    {%- set off = {'value': 'false', 'is': 'off', 'to_do': 'Set it to true' ~ for_dbt} -%}
    {#- Any duration but none. A fence that reads an old state lets a stale run pass. -#}
    {%- set more = {'value': '.*[1-9].*', 'is': 'set', 'to_do': 'Set it to 0' ~ for_dbt} -%}
    {%- set unsafe = {
        'spark.sql.parser.escapedStringLiterals': dict(
            on, does='the texts in its statements mean something else', to_do=on.to_do ~ ', and write the backslashes of the query twice',
        ),
        'spark.sql.files.ignoreMissingFiles': dict(on, does=leaves_out ~ 'are gone'),
        'spark.sql.files.ignoreCorruptFiles': dict(on, does=leaves_out ~ 'it cannot read'),
        'spark.sql.parser.quotedRegexColumnNames': dict(on, does='Spark takes a name in backticks for a pattern of names'),
        'spark.sql.readSideCharPadding': dict(off, does='Spark does not pad what it reads of a char(n)'),
        'spark.sql.legacy.charVarcharAsString': dict(on, does='Spark pads neither what it reads of a char(n) nor what that is compared with'),
        'spark.sql.legacy.ctePrecedencePolicy': {
            'value': 'legacy', 'is': 'at LEGACY', 'to_do': 'Set it to CORRECTED' ~ for_dbt,
            'does': 'a common table expression that is called like the upstream may be read without what it does',
        },
        'spark.sql.storeAssignmentPolicy': {
            'value': 'legacy|strict', 'is': 'at another value than ANSI', 'to_do': 'Set it to ANSI' ~ for_dbt, 'format': 'iceberg',
            'does': 'a MERGE into an Iceberg table may fail on types that are the same',
        },
        'spark.databricks.delta.stalenessLimit': dict(more, does='Spark may read a Delta table as it was before the last commits'),
        'spark.databricks.delta.schema.autoMerge.enabled': dict(on, does='a MERGE would add columns to a Delta MV', format='delta'),
        'spark.databricks.delta.write.txnAppId': {
            'value': '.+', 'is': 'set', 'does': 'Delta skips all writes to a table but the first', 'format': 'delta',
            'to_do': 'Unset it, and spark.databricks.delta.write.txnVersion,' ~ for_dbt,
        },
    } -%}
    {%- for name, refused in unsafe.items()
            if refused.get('format', backfill.options.file_format) == backfill.options.file_format
            and modules.re.fullmatch(refused.value, settings.get(name, '') | lower) -%}
        {%- do dbt_backfill.refuse(
            'the session has ' ~ name ~ ' ' ~ refused.is ~ ', under which ' ~ refused.does, refused.to_do, mv=backfill.get('name')
        ) -%}
    {%- endfor -%}
    {%- do dbt_backfill.check_iceberg_catalogs(backfill, settings) -%}
{% endmacro %}


{#-
    Refuse an Iceberg catalog that caches its tables: a session would not see for 30 s what another one committed, so that a run would use
    a stale state, a fence let a stale run pass, or an upstream be behind its change table. Refuse one that overrides a table property
    that exactness needs.
-#}
{% macro check_iceberg_catalogs(backfill, settings) %}
    {%- set tables = [backfill.mv] if backfill.options.file_format == 'iceberg' else [] -%}
    {%- set followed = [backfill.upstream, backfill.feed] if backfill.feed else [(backfill.upstream or {}).get('feed')] -%}
    {%- for table in followed if table and table.kind and dbt_backfill.upstream_traits(table).may_be_cached -%}
        {%- do tables.append(table.relation) -%}
    {%- endfor -%}
    {%- for table in tables -%}
        {%- set catalog = dbt_backfill.get_catalog(table) or settings.get('spark.sql.defaultCatalog', 'spark_catalog') -%}
        {%- set setting = 'spark.sql.catalog.' ~ catalog ~ '.cache-enabled' -%}
        {%- if settings.get(setting, 'true') | lower != 'false' -%}
            {%- do dbt_backfill.refuse(
                'the Iceberg catalog ' ~ catalog ~ ' of ' ~ table.render() ~ ' caches tables, so a run would not see what another one committed',
                'Set ' ~ setting ~ ' to false where the catalog is configured (server_side_parameters, or the Spark server)',
                mv=backfill.get('name')
            ) -%}
        {%- endif -%}
        {%- for name, value in (dbt_backfill.exact_table_properties('iceberg') if table == backfill.mv else {}).items() -%}
            {%- set setting = 'spark.sql.catalog.' ~ catalog ~ '.table-override.' ~ name -%}
            {%- if settings.get(setting, value) | lower != value -%}
                {%- do dbt_backfill.refuse(
                    'the session has ' ~ setting ~ ' = ' ~ settings[setting] ~ ', under which barriers are not exact',
                    'Set it to ' ~ value ~ ', or leave it out', mv=backfill.get('name')
                ) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
{% endmacro %}
